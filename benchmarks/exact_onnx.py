"""A quantized ONNX file in exact arithmetic: who is nearer to it, a library or onnxruntime.

A sum of another order moves a value over a border of rounding, and the layers behind it spread
that step. So two right runs of a deep quantized network differ; their means from exact do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

OPSET = 21
"""The reference has quantizing operators from this set of operators on; they mean the same."""

Arrays = Sequence[np.ndarray]


def is_quantized(file: Path) -> bool:
    nodes = onnx.load(file).graph.node
    return any(node.op_type in {"QuantizeLinear", "DynamicQuantizeLinear"} for node in nodes)


def exact(file: Path, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of ``file`` in double precision, by ONNX's reference."""
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(file)
    for tensor in _tensors(model):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for domain in model.opset_import:
        if domain.domain == "":
            domain.version = max(domain.version, OPSET)
    wide_feed = {n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in feed.items()}
    found: list[np.ndarray] = ReferenceEvaluator(model).run(None, wide_feed)
    return found


def _tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    held = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    return [*model.graph.initializer, *held]


def distance(found: Arrays, wanted: Arrays) -> float:
    """Return the mean error, relative to the largest value; the one of the worst output."""
    pairs = zip(found, wanted, strict=True)
    return max(float(np.abs(y - w).mean() / max(np.abs(w).max(), 1e-30)) for y, w in pairs)


def distances(file: Path, feed: Mapping[str, np.ndarray], found: Arrays) -> dict[str, float]:
    """Return how far ``found`` and onnxruntime, without and with its passes, are from exact."""
    import onnxruntime

    wanted, level = exact(file, feed), onnxruntime.GraphOptimizationLevel
    result = {"library": distance(found, wanted)}
    for name, passes in {"plain": level.ORT_DISABLE_ALL, "passes": level.ORT_ENABLE_ALL}.items():
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = passes
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        result[f"onnxruntime, {name}"] = distance(session.run(None, dict(feed)), wanted)
    return result
