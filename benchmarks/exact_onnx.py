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
    _widen(model.graph)
    for domain in model.opset_import:
        if domain.domain == "":
            domain.version = max(domain.version, OPSET)
    wide_feed = {n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in feed.items()}
    found: list[np.ndarray] = ReferenceEvaluator(model).run(None, wide_feed)
    return found


def _widen(graph: onnx.GraphProto) -> None:
    """Make doubles of the floats that ``graph`` holds, and of those it makes; inner graphs, too."""
    given = [attribute for node in graph.node for attribute in node.attribute]
    for tensor in [*graph.initializer, *(a.t for a in given if a.HasField("t"))]:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for attribute in given:
        if attribute.name in ("to", "dtype") and attribute.i == onnx.TensorProto.FLOAT:
            attribute.i = onnx.TensorProto.DOUBLE
        if attribute.HasField("g"):
            _widen(attribute.g)


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
