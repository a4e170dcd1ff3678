"""Half precision is for what tensors hold: functions and sums are computed in single precision.

before: ``y = tanh(x)`` in float16 --> after: ``y = float16(tanh(float32(x)))``, as PyTorch does
"""

from __future__ import annotations

import torch

from tvm_sparse.frontends.program.promotion import cast_arguments, dtype_of

aten = torch.ops.aten

_HALF = (torch.float16, torch.bfloat16)

_ROUNDED_ONCE = {
    *("add", "sub", "rsub", "mul", "div", "neg", "abs", "sign", "relu", "maximum", "minimum"),
    *("where", "clamp", "clamp_min", "clamp_max", "hardtanh", "floor", "ceil", "round", "trunc"),
    *("_to_copy", "clone", "masked_fill", "fill", "copy", "eq", "ne", "lt", "le", "gt", "ge"),
    *("isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or", "logical_xor"),
}
"""Element-wise operators whose result is the exact one, rounded."""

_SUMS = {
    *("sum", "mean", "prod", "var", "std", "_softmax", "_log_softmax", "logsumexp", "cumsum"),
    *("cumprod", "linalg_vector_norm", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool3d", "group_norm"),
}

_POSITIONS = {"argmax", "argmin"}
"""Operators whose result says where an element is: of wider numbers it is the same."""


def widen_halves(program: torch.export.ExportedProgram) -> None:
    """Insert casts in ``program``, which is ours, around what would round more than once."""
    for node in list(program.graph.nodes):
        if _name(node) in _POSITIONS:
            node.args = cast_arguments(node, torch.float32, only=_HALF)
        if not _rounds_often(node):
            continue
        dtype = node.meta["val"].dtype
        node.args = cast_arguments(node, torch.float32, only=_HALF)
        node.kwargs = {k: v for k, v in node.kwargs.items() if k != "dtype"}
        node.meta["val"] = node.meta["val"].to(torch.float32)
        with node.graph.inserting_after(node):
            back = node.graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
        back.meta = {**node.meta, "val": node.meta["val"].to(dtype)}
        node.replace_all_uses_with(back, delete_user_cb=lambda user, back=back: user is not back)


def _name(node: torch.fx.Node) -> str:
    """Return the operator that a node calls, without its overload."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return ""
    return node.target.__name__.partition(".")[0]


def _rounds_often(node: torch.fx.Node) -> bool:
    name, value = _name(node), node.meta.get("val")
    if not name or not isinstance(value, torch.Tensor) or value.dtype not in _HALF:
        return False
    if not any(dtype_of(a) in _HALF for a in node.args):
        return False
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return name in _SUMS or (pointwise and name not in _ROUNDED_ONCE)
