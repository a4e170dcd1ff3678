"""ONNX's node tests whose shapes, axes, scales, … are inputs, with these as constants.

Networks give them so. As inputs they are known only at run time, and the tests are refused.
"""

from __future__ import annotations

from typing import Any

import onnx

from tests.suites import onnx_nodes
from tests.suites.onnx_nodes import VERSION, operator_of
from tests.suites.outcomes import Arrays, Result
from tvm_sparse.frontends.onnx import converters
from tvm_sparse.frontends.onnx.registry import find

__all__ = ["TITLE", "VERSION", "cases", "check", "operator_of"]

TITLE = "ONNX's backend node tests with inputs that have to be known as constants"

assert converters.__path__, "importing it enters the converters"


def cases() -> list[str]:
    """Return the names of the tests that have such inputs."""
    return [name for name, case in onnx_nodes.tests().items() if _static(case.model)]


def _static(model: Any) -> set[str]:
    """Return the inputs of ``model`` that its nodes have to know."""
    graph, names = model.graph, set()
    opsets = {o.domain: o.version for o in model.opset_import}
    for node in graph.node:
        converter = find(node.op_type, node.domain, opsets.get(node.domain, 0))
        if converter is not None:
            parameters = [p.name for p in converter.inputs]
            pairs = zip(node.input, parameters, strict=False)
            names |= {name for name, parameter in pairs if parameter in converter.static}
    return {value.name for value in graph.input if value.name in names}


def check(key: str) -> Result:
    """Compile one test, the inputs that have to be known among its initializers."""
    model, inputs, outputs = with_constants(onnx_nodes.tests()[key])
    return onnx_nodes.compared(key, model, inputs, outputs)


def with_constants(case: Any) -> tuple[Any, Arrays, Arrays]:
    """Return the model of a test with what has to be known as constants, and inputs and outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    known = _static(model)
    inputs, outputs = ([onnx_nodes.array(x) for x in values] for values in case.data_sets[0])
    pairs = list(zip([value.name for value in model.graph.input], inputs, strict=True))
    for name, value in pairs:
        if name in known:
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    rest = [value for value in model.graph.input if value.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(rest)
    return model, [value for name, value in pairs if name not in known], outputs
