"""Which tensors of a program lie in memory as PyTorch's metadata says, and what depends on that.

Strides in a traced program are guesses where an operator decides them: ``roll`` keeps those of a
tensor that is channels last, and the trace says that its result is contiguous.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.frontends.program.operator_names import operator_name

aten = torch.ops.aten

_BY_MEMORY = {
    *("as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"),
    *("resize", "resize_", "resize_as_", "set_"),
}
"""Operators whose results depend on how their first operand lies in memory."""

_EXACT = {"clone", "contiguous", "reshape", "_to_copy", "to", "_unsafe_view", "flatten"}
"""Operators with traced strides that are true, beside views and element-wise ones."""


def refuse_unknown_layouts(program: torch.export.ExportedProgram) -> None:
    """Refuse operators that read memory by strides, unless their operand is surely contiguous.

    Raises
    ------
    UnsupportedError
        There is one; the message names its layer and operator.
    """
    known: dict[fx.Node, bool] = {}
    for node in program.graph.nodes:
        known[node] = _is_known(node, known)
        if _name(node.target) not in _BY_MEMORY:
            continue
        operand = node.args[0]
        if not isinstance(operand, fx.Node) or not (known[operand] and _is_plain(operand)):
            raise UnsupportedError(
                layer_of(node),
                f"operator '{operator_name(node.target)}' reads memory by strides, of a tensor"
                " whose layout only PyTorch knows",
                "a contiguous input, or what is computed of contiguous tensors",
                "write it with slices, permutations and `unfold`, or pass a contiguous input",
            )


def _is_known(node: fx.Node, known: dict[fx.Node, bool]) -> bool:
    """Whether the strides that were traced for ``node`` are those that it has."""
    if node.op != "call_function":
        return True
    if not all(known[operand] for operand in node.all_input_nodes):
        return False
    return _is_exact(node.target) or all(map(_is_plain, (node, *node.all_input_nodes)))


def _is_exact(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    views = any(r.alias_info is not None for r in target._schema.returns)
    return views or torch.Tag.pointwise in target.tags or _name(target) in _EXACT


def _name(target: Any) -> str:
    """Return the name of an operator without its overload."""
    return target.__name__.partition(".")[0] if isinstance(target, torch._ops.OpOverload) else ""


def _is_plain(node: fx.Node) -> bool:
    """Whether the elements of ``node`` lie one after the other, the first at the beginning."""
    values = node.meta.get("val")
    tensors = values if isinstance(values, list | tuple) else (values,)
    return all(
        value.layout is torch.strided
        and statically_known_true(value.storage_offset() == 0)  # values may decide it
        and value.is_contiguous()
        for value in tensors
        if isinstance(value, torch.Tensor)
    )
