"""Tracing of models as torchao's quantizer reads them."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.example_inputs import told_apart
from tvm_sparse.frontends.modules.torch import exported
from tvm_sparse.frontends.program.asked_conditions import CONDITIONS
from tvm_sparse.quantization.linear_products import linear_products

aten = torch.ops.aten

_SOURCES: dict[Any, Any] = {
    aten.conv1d.default: nn.Conv1d,
    aten.conv2d.default: nn.Conv2d,
    aten.conv2d.padding: nn.Conv2d,
    aten.linear.default: nn.Linear,
    aten.batch_norm.default: nn.BatchNorm2d,
    aten.add.Tensor: operator.add,
    aten.add_.Tensor: operator.add,
    aten.relu.default: nn.ReLU,
    aten.relu_.default: nn.ReLU,
    aten.relu6.default: nn.ReLU6,
    aten.relu6_.default: nn.ReLU6,
    aten.hardtanh.default: nn.Hardtanh,
    aten.hardtanh_.default: nn.Hardtanh,
    aten.hardswish.default: nn.Hardswish,
    aten.hardswish_.default: nn.Hardswish,
    aten.silu.default: nn.SiLU,
    aten.silu_.default: nn.SiLU,
    aten.leaky_relu.default: nn.LeakyReLU,
    aten.leaky_relu_.default: nn.LeakyReLU,
    aten.tanh.default: nn.Tanh,
    aten.gelu.default: nn.GELU,
}
"""By operator: the module that torchao's patterns know it by."""


def traced(
    where: str, model: nn.Module, call: tuple[tuple[Any, ...], dict[str, Any]], shapes: Any = None
) -> Any:
    """Return the graph of ``model``, each operator of which says what torchao calls it.

    ``shapes`` says which extents stay open, as :func:`torch.export.export` takes it.

    The strict exporter says so, too, but takes several times as long: it checks the shape of each
    parameter. It traces the few models that the other one cannot.
    """
    try:
        program = exported(model, call, shapes)
    except InputError as refused:
        try:
            program = torch.export.export(
                model, *told_apart(model, call), dynamic_shapes=shapes, strict=True
            )
        except Exception as error:
            if shapes is not None:
                raise refused from error
            found = f"the model cannot be traced{aside(said(error))}"
            raise InputError(where, found) from error
    graph = program.module(check_guards=False)
    graph.meta[CONDITIONS] = program.graph_module.meta.get(CONDITIONS, [])
    linear_products(graph)
    name_sources(graph)
    return graph


def name_sources(module: fx.GraphModule) -> None:
    """Tell torchao of each operator that it is a use of a module of its own.

    Without it a module that is used twice counts as one pattern, which torchao refuses.
    """
    for node in module.graph.nodes:
        if node.op == "call_function":
            source = _SOURCES.get(node.target, node.target)
            node.meta["source_fn_stack"] = [(node.name, source)]
