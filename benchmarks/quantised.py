"""The benchmark's networks in bytes: ONNX files that every runtime reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch


def write_quantised(model: Any, x: torch.Tensor, file: Path) -> None:
    """Write ``model`` with ``QuantizeLinear`` and ``DequantizeLinear`` around its operators.

    onnxruntime's quantiser: unsigned bytes with a zero point a tensor for activations, signed
    bytes with a scale a feature for weights, so that pruned zeros stay zeros. Ranges are those of
    ``x``, which suits random weights and timing.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    plain, ready = file.with_suffix(".float.onnx"), file.with_suffix(".ready.onnx")
    torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(plain)
    quant_pre_process(plain, ready, skip_symbolic_shape=True)
    quantization.quantize_static(
        ready,
        file,
        _Once({_input_name(ready): x.numpy()}),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    plain.unlink()
    ready.unlink()


class _Once:
    """Calibration data: one batch."""

    def __init__(self, feed: dict[str, np.ndarray]) -> None:
        self.left = [feed]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next batch, if any is left."""
        return self.left.pop() if self.left else None

    def set_range(self, start_index: int, end_index: int) -> None:
        """Take all there is."""


def _input_name(file: Path) -> str:
    import onnx

    return str(onnx.load(file, load_external_data=False).graph.input[0].name)
