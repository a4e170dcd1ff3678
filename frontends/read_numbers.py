"""Numbers that a model reads out of tensors (``item``, an index that is a tensor) stay tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters import layer_of
from tvm_sparse.frontends.number_users import USERS, Emit
from tvm_sparse.frontends.operator_names import operator_name

aten = torch.ops.aten

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_DROPPED = (
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
    aten._assert_scalar.default,
)
"""What tells PyTorch's compiler how large a number can be."""


def keep_numbers_tensors(program: torch.export.ExportedProgram) -> None:
    """Let tensors without axes stand for the numbers that ``program``, which is ours, reads.

    before: ``n = item(i); y = select(x, 0, n + 1)``
    after:  ``y = squeeze(index_select(x, 0, reshape(i + 1, [1])), 0)``

    Raises
    ------
    UnsupportedError
        An operator takes such a number and has no form with a tensor in its place.
    """
    graph = program.graph
    read = graph.find_nodes(op="call_function", target=aten._local_scalar_dense.default)
    if not read:
        return
    numbers: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        taken = [n for n in node.all_input_nodes if n in numbers]
        emit = _emitter(node)
        if node in read:
            numbers[node] = _as_number(emit, node)
        elif node.target is aten._assert_scalar.default and taken:
            _assert(emit, node, numbers)
        elif taken and isinstance(node.meta.get("val"), _NUMBERS):
            numbers[node] = _computed(emit, node, numbers)
        elif taken and node.target not in _DROPPED:
            _used(emit, node, numbers)
    for node in reversed(list(graph.nodes)):
        if (node in numbers or node.target in _DROPPED) and not node.users:
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _emitter(before: fx.Node) -> Emit:
    """Return a function that adds an operator before a node and returns it."""

    def emit(target: Any, *args: Any, **named: Any) -> fx.Node:
        with before.graph.inserting_before(before):
            node = before.graph.call_function(target, args, named)
        fakes = pytree.tree_map_only(fx.Node, lambda n: n.meta["val"], (args, named))
        held = [leaf for leaf in pytree.tree_leaves(fakes) if isinstance(leaf, torch.Tensor)]
        mode = getattr(held[0], "fake_mode", None) if held else None
        with mode or torch.no_grad():
            value = target(*fakes[0], **fakes[1])
        node.meta = {"nn_module_stack": before.meta.get("nn_module_stack"), "val": value}
        return node

    return emit


def _as_number(emit: Emit, node: fx.Node) -> fx.Node:
    """Return the tensor that ``node`` reads: without axes, of the type that Python computes in."""
    (tensor,) = node.all_input_nodes
    value = tensor.meta["val"]
    if value.dim():
        tensor = emit(aten.reshape.default, tensor, [])
    wide = torch.float64 if value.is_floating_point() else torch.int64
    if value.dtype in (wide, torch.bool):
        return tensor
    return emit(aten._to_copy.default, tensor, dtype=wide)


def _truth(emit: Emit, x: Any) -> Any:
    return emit(aten._to_copy.default, x, dtype=torch.bool)


def _converted(dtype: torch.dtype) -> Callable[..., Any]:
    return lambda emit, x: emit(aten._to_copy.default, x, dtype=dtype)


def _rounded(function: Any) -> Callable[..., Any]:
    def write(emit: Emit, x: Any) -> Any:
        if not x.meta["val"].is_floating_point():
            return x
        return emit(aten._to_copy.default, emit(function, x), dtype=torch.int64)

    return write


def _binary(function: Any, **named: Any) -> Callable[..., Any]:
    def write(emit: Emit, x: Any, y: Any) -> Any:
        return emit(function, *_tensors(emit, x, y), **named)

    return write


def _divided(emit: Emit, x: Any, y: Any) -> Any:
    parts = _tensors(emit, x, y)
    wide = [emit(aten._to_copy.default, part, dtype=torch.float64) for part in parts]
    return emit(aten.div.Tensor, *wide)


def _tensors(emit: Emit, *values: Any) -> list[Any]:
    """Return tensors without axes; one of the values is one already."""
    like = next(value for value in values if isinstance(value, fx.Node))
    found = [
        value
        if isinstance(value, fx.Node)
        else emit(aten.full_like.default, like, value, dtype=_type(value))
        for value in values
    ]
    wide = any(value.meta["val"].is_floating_point() for value in found)
    if wide:
        found = [emit(aten._to_copy.default, value, dtype=torch.float64) for value in found]
    return found


_ARITHMETIC: dict[Any, Callable[..., Any]] = {
    operator.add: _binary(aten.add.Tensor),
    operator.sub: _binary(aten.sub.Tensor),
    operator.mul: _binary(aten.mul.Tensor),
    operator.floordiv: _binary(aten.div.Tensor_mode, rounding_mode="floor"),
    operator.mod: _binary(aten.remainder.Tensor),
    operator.pow: _binary(aten.pow.Tensor_Tensor),
    operator.truediv: _divided,
    operator.neg: lambda emit, x: emit(aten.neg.default, x),
    operator.eq: _binary(aten.eq.Tensor),
    operator.ne: _binary(aten.ne.Tensor),
    operator.lt: _binary(aten.lt.Tensor),
    operator.le: _binary(aten.le.Tensor),
    operator.gt: _binary(aten.gt.Tensor),
    operator.ge: _binary(aten.ge.Tensor),
    operator.and_: lambda emit, x, y: emit(aten.logical_and.default, *_tensors(emit, x, y)),
    operator.or_: lambda emit, x, y: emit(aten.logical_or.default, *_tensors(emit, x, y)),
    torch.sym_max: _binary(aten.maximum.default),
    torch.sym_min: _binary(aten.minimum.default),
    torch.sym_not: lambda emit, x: emit(aten.logical_not.default, x),
    torch.sym_float: _converted(torch.float64),
    torch.sym_int: _rounded(aten.trunc.default),
    torch.sym_ite: lambda emit, c, x, y: emit(aten.where.self, _truth(emit, c), x, y),
    math.floor: _rounded(aten.floor.default),
    math.ceil: _rounded(aten.ceil.default),
    math.trunc: _rounded(aten.trunc.default),
}
"""By the operator of numbers: what writes it, of what stands for its operands."""


def _computed(emit: Emit, node: fx.Node, numbers: dict[fx.Node, fx.Node]) -> fx.Node:
    """Return the tensor that stands for a number that is computed of others."""
    target: Any = node.target
    write = _ARITHMETIC.get(target)
    args = [numbers.get(a, a) if isinstance(a, fx.Node) else a for a in node.args]
    sizes = [a for a in args if isinstance(a, fx.Node) and isinstance(a.meta["val"], _NUMBERS)]
    if write is None or sizes:
        raise _refused(node)
    if target is torch.sym_ite:
        like = args[0]
        args[1:] = [
            a if isinstance(a, fx.Node) else emit(aten.full_like.default, like, a, dtype=_type(a))
            for a in args[1:]
        ]
    result: fx.Node = write(emit, *args)
    return result


def _type(number: Any) -> torch.dtype:
    return torch.float64 if isinstance(number, float) else torch.int64


def _assert(emit: Emit, node: fx.Node, numbers: dict[fx.Node, fx.Node]) -> None:
    """Assert a tensor: that a number is in its bounds is not asserted, the model says so."""
    condition: Any = node.args[0]
    truth = _truth(emit, numbers[condition])
    emit(aten._assert_async.msg, truth, f"{layer_of(node)} asserts what is not so")


def _used(emit: Emit, node: fx.Node, numbers: dict[fx.Node, fx.Node]) -> None:
    """Let ``node``, which gives a tensor, take tensors in the place of numbers."""
    if free_unbacked_symbols(getattr(node.meta.get("val"), "shape", ())):
        return  # values decide the shape, which is refused later on
    write = USERS.get(node.target)
    if write is None:
        raise _refused(node)
    args, named = pytree.tree_map_only(
        fx.Node, lambda n: numbers.get(n, n), (node.args, node.kwargs)
    )
    made = write(emit, node, *args, **named)
    if made is None:
        raise _refused(node)
    node.replace_all_uses_with(made)


def _refused(node: fx.Node) -> UnsupportedError:
    return UnsupportedError(
        layer_of(node),
        f"operator '{operator_name(node.target)}' takes a number out of a tensor",
        "tensors in its place, and shapes that follow from the shapes of the inputs",
        "leave the number in its tensor: do not call item(), int() or tolist()",
    )
