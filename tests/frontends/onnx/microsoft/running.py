"""One operator of onnxruntime's domain, run by onnxruntime and as a torch module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from tests.frontends.onnx.graphs import eager

DOMAIN = "com.microsoft"
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    """Return random floats of single precision."""
    return RNG.standard_normal(shape, np.float32)


def one_node(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    outputs: str = "y",
    *,
    domain: str = DOMAIN,
    constant: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node; ``-`` is an output left out, ``constant`` inputs are weights."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    given = ["" if name == "-" else name for name in outputs.split()]
    found = [(k, n, x) for k, (n, x) in enumerate(zip(names, inputs, strict=True)) if x is not None]
    made = helper.make_graph(
        [helper.make_node(operator, names, given, name="n", domain=domain, **attributes)],
        "graph",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for k, n, x in found
            if k not in constant
        ],
        [onnx.ValueInfoProto(name=name) for name in given if name],
        [onnx.numpy_helper.from_array(x, n) for k, n, x in found if k in constant],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(made, ir_version=10, opset_imports=opsets)


def by_onnxruntime(model: onnx.ModelProto, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return what onnxruntime makes of ``feeds``, without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [value.name for value in model.graph.input]
    return list(session.run(None, dict(zip(names, feeds, strict=True))))


def assert_same(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    outputs: str = "y",
    *,
    atol: float = 1e-5,
    **options: Any,
) -> None:
    """Check that all outputs of one node are those of onnxruntime, their types and shapes too."""
    model = one_node(operator, inputs, outputs, **options)
    constant = options.get("constant", ())
    feeds = [x for k, x in enumerate(inputs) if x is not None and k not in constant]
    expected, got = by_onnxruntime(model, feeds), eager(model, *feeds)
    assert len(expected) == len(got)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol)
