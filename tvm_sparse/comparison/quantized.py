"""A float ONNX file in bytes, by onnxruntime's own quantizer: what its users would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def quantize(source: Path, result: Path, inputs: Sequence[np.ndarray]) -> None:
    """Write the model in ``source`` with bytes around its operators to ``result``.

    Activations are unsigned with a scale and a zero point a tensor, weights signed with a scale a
    feature: pruned zeros stay zeros. Ranges are those of ``inputs`` alone, which suits timing.
    Accuracy takes real calibration data.
    """
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):
        """Gives the inputs once."""

        def __init__(self, names: list[str]) -> None:
            self.left = [dict(zip(names, inputs, strict=True))]

        def get_next(self) -> dict[str, np.ndarray] | None:
            """Return the next batch, if any is left."""
            return self.left.pop() if self.left else None

    ready = result.with_suffix(".ready.onnx")
    whole = result.with_suffix(".whole.onnx")  # what reads it refuses links to files of weights
    onnx.save(onnx.load(str(source)), str(whole))
    quant_pre_process(str(whole), str(ready), skip_symbolic_shape=True)
    whole.unlink()
    graph = onnx.load(str(ready), load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    quantization.quantize_static(
        str(ready),
        str(result),
        Reader([i.name for i in graph.input if i.name not in weights]),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    ready.unlink()
