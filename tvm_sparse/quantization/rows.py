"""Linear layers of an exported module that find the scale of each row of their input."""

from __future__ import annotations

from collections.abc import Collection
from operator import getitem
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor, fx

from tvm_sparse.base.names import holder
from tvm_sparse.frontends.modules.quantized_layers import modules_of

quantized = torch.ops.quantized_decomposed

_LIMITS = (-128, 127, torch.int8)
_WEIGHT_LIMITS = (-127, 127, torch.int8)


def quantize_rows(program: fx.GraphModule, ignore: Collection[str]) -> None:
    """Let linear layers of ``program`` multiply bytes, with a scale for each row of their input.

    Weights are signed bytes around zero with a scale a feature, rows have a zero point too. Layers
    in modules of the names ``ignore``, and those of another type than float32, stay as they are.
    """
    graph = program.graph
    rows: dict[fx.Node, fx.Node] = {}
    weights: dict[fx.Node, tuple[fx.Node, ...]] = {}
    meant: dict[fx.Node, fx.Node] = {}
    for layer in graph.find_nodes(
        op="call_function", target=torch.ops.aten.linear.default, sort=True
    ):
        x, weight = layer.args[:2]
        if _float_weight(program, weight) is None or _within(layer, ignore):
            continue
        if x not in rows:
            with graph.inserting_before(layer):
                rows[x] = _rounded(graph, x)
        if weight not in weights:
            with graph.inserting_before(weight.next):
                weights[weight] = _stored(program, weight)
                args: Any = (*weights[weight], 0, *_WEIGHT_LIMITS)
                meant[weight] = graph.call_function(quantized.dequantize_per_channel.default, args)
        layer.args = (rows[x], meant[weight], *layer.args[2:])
    for weight, (stored, *_) in weights.items():
        if not weight.users:
            _named_as(program, weight, stored)
    program.recompile()


def _within(layer: fx.Node, names: Collection[str]) -> bool:
    return not set(names).isdisjoint(modules_of(layer))


def _float_weight(program: fx.GraphModule, weight: fx.Node) -> Tensor | None:
    """Return the value of a weight in single precision."""
    if weight.op != "get_attr":
        return None
    value = getattr(*holder(program, str(weight.target)))
    return value if isinstance(value, Tensor) and value.dtype == torch.float32 else None


def _rounded(graph: fx.Graph, x: fx.Node) -> fx.Node:
    """Emit what the bytes of ``x`` mean.

    Rows have a zero point: behind GELU, most of a symmetric range would never be met.
    """
    choose = quantized.choose_qparams_per_token_asymmetric.default
    chosen = graph.call_function(choose, (x, torch.int8))
    size, zero = (graph.call_function(getitem, (chosen, i)) for i in range(2))
    q = graph.call_function(quantized.quantize_per_token.default, (x, size, zero, *_LIMITS))
    meant = (q, size, zero, *_LIMITS, torch.float32)
    return graph.call_function(quantized.dequantize_per_token.default, meant)


def _stored(program: fx.GraphModule, weight: fx.Node) -> tuple[fx.Node, ...]:
    """Emit the bytes of ``weight``, their sizes and zero points."""
    value = _float_weight(program, weight)
    assert value is not None
    steps, sizes = _steps(value.detach())
    name = f"_bytes_{weight.name}"
    parts = {name: steps, f"{name}_sizes": sizes, f"{name}_zeros": torch.zeros_like(sizes).long()}
    for part, tensor in parts.items():
        program.register_buffer(part, tensor)
    return tuple(program.graph.get_attr(part) for part in parts)


def _steps(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the bytes of a weight, and what a step of each feature means."""
    sizes = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).eps) / 127
    steps = torch.round(weight / sizes[:, None]).clamp(*_WEIGHT_LIMITS[:2]).to(torch.int8)
    return steps, sizes


def weight_meant(weight: Tensor) -> Tensor:
    """Return what the bytes of a weight mean."""
    steps, sizes = _steps(weight)
    return steps * sizes[:, None]


def row_meant(x: Tensor) -> Tensor:
    """Return what the bytes of each row of ``x`` mean."""
    chosen = quantized.choose_qparams_per_token_asymmetric(x, torch.int8)
    q = quantized.quantize_per_token(x, *chosen, *_LIMITS)
    meant: Tensor = quantized.dequantize_per_token(q, *chosen, *_LIMITS, torch.float32)
    return meant


def _named_as(program: fx.GraphModule, weight: fx.Node, stored: fx.Node) -> None:
    """Give ``stored`` the name of ``weight``, which nothing reads any more."""
    name, frozen = str(weight.target), getattr(program, str(stored.target))
    module, last = holder(program, name)
    program.graph.erase_node(weight)
    delattr(module, last)
    delattr(program, str(stored.target))
    module.register_buffer(last, frozen)
    stored.target = name
