"""Numbers stay tensors: those read out of tensors (``item``), and open extents used as operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.frontends.program.number_arithmetic import computed
from tvm_sparse.frontends.program.number_users import OPERANDS, USERS, Emit
from tvm_sparse.frontends.program.operator_names import operator_name

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

    They stand for open extents too where these are operands. As extents of shapes they stay.

    before: ``n = sym_size(x, 0); y = x / n``
    after:  ``y = x / scalar_tensor(n)``

    Raises
    ------
    UnsupportedError
        An operator takes such a number and has no form with a tensor in its place.
    """
    graph = program.graph
    read = graph.find_nodes(op="call_function", target=aten._local_scalar_dense.default)
    numbers: dict[fx.Node, fx.Node] = {}
    extents: dict[fx.Node, fx.Node] = {}
    for node in list(graph.nodes):
        taken = [n for n in node.all_input_nodes if n in numbers]
        emit = _emitter(node)
        if node in read:
            numbers[node] = _as_number(emit, node)
        elif node.target is aten._assert_scalar.default and taken:
            _assert(emit, node, numbers)
        elif taken and isinstance(node.meta.get("val"), _NUMBERS):
            numbers[node] = _computed(emit, node, numbers, extents)
        elif _takes_extents(node) and (given := _stand_ins(emit, node, node, extents, numbers)):
            _used(emit, node, {**numbers, **given})
        elif taken and node.target not in _DROPPED:
            _used(emit, node, numbers)
    for node in reversed(list(graph.nodes)):
        if (node in numbers or node.target in _DROPPED) and not node.users:
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _emitter(before: fx.Node) -> Emit:
    """Return a function that adds an operator before a node and returns it.

    Its ``like`` is a node for what takes no tensor: it gives a tensor that is in its program.
    """

    def emit(target: Any, *args: Any, like: fx.Node | None = None, **named: Any) -> fx.Node:
        with before.graph.inserting_before(before):
            node = before.graph.call_function(target, args, named)
        if like is not None:
            value = like.meta["val"].new_empty((), dtype=named["dtype"])
            node.meta = {"nn_module_stack": before.meta.get("nn_module_stack"), "val": value}
            return node
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


def _takes_extents(node: fx.Node) -> bool:
    """Return whether an operand of ``node`` is a number that no converter of extents makes."""
    given = [n.meta["val"] for n in _operands(node)]
    if node.target in {aten.full.default, aten.scalar_tensor.default}:
        return any(isinstance(value, torch.SymFloat | torch.SymBool) for value in given)
    return node.target in OPERANDS and bool(given)


def _operands(node: fx.Node) -> list[fx.Node]:
    """Return the numbers that ``node`` takes; those in lists are extents of shapes."""
    given = (*node.args, *node.kwargs.values())
    return [n for n in given if isinstance(n, fx.Node) and isinstance(n.meta.get("val"), _NUMBERS)]


def _stand_ins(
    emit: Emit,
    node: fx.Node,
    like: fx.Node,
    extents: dict[fx.Node, fx.Node],
    numbers: Mapping[fx.Node, fx.Node] = MappingProxyType({}),
) -> dict[fx.Node, fx.Node]:
    """Return what stands for the numbers that ``node`` takes; nothing where one has no form."""
    found = {n: numbers.get(n) or _stand(emit, n, like, extents) for n in _operands(node)}
    known = {n: made for n, made in found.items() if made is not None}
    return known if len(known) == len(found) else {}


def _stand(
    emit: Emit, number: fx.Node, like: fx.Node, extents: dict[fx.Node, fx.Node]
) -> fx.Node | None:
    """Return the tensor that stands for an extent, or for what is computed of extents."""
    if number in extents:
        return extents[number]
    if _operands(number):
        parts = _stand_ins(emit, number, like, extents)
        made = computed(emit, number, _replaced(number.args, parts)) if parts else None
    else:
        made = emit(aten.scalar_tensor.default, number, dtype=torch.int64, like=like)
    if made is not None:
        extents[number] = made
    return made


def _replaced(args: Sequence[Any], tensors: Mapping[fx.Node, fx.Node]) -> list[Any]:
    return [tensors.get(a, a) if isinstance(a, fx.Node) else a for a in args]


def _computed(
    emit: Emit,
    node: fx.Node,
    numbers: dict[fx.Node, fx.Node],
    extents: dict[fx.Node, fx.Node],
) -> fx.Node:
    """Return the tensor that stands for a number that is computed of others."""
    like = next(numbers[n] for n in node.all_input_nodes if n in numbers)
    given = _stand_ins(emit, node, like, extents, numbers)
    made = computed(emit, node, _replaced(node.args, given)) if given else None
    if made is None:
        raise _refused(node)
    return made


def _assert(emit: Emit, node: fx.Node, numbers: dict[fx.Node, fx.Node]) -> None:
    """Assert a tensor: that a number is in its bounds is not asserted, the model says so."""
    condition: Any = node.args[0]
    truth = emit(aten._to_copy.default, numbers[condition], dtype=torch.bool)
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
