"""Functions that only put borders around channels-last tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, te, tirx, topi

from tvm_sparse.ops.bytes.halves import by_bits
from tvm_sparse.ops.marks import FUSION, INJECTIVE, PADDING
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name


def sides(widths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the widths before and after each axis, images and channels included.

    ``widths`` are those before all spatial axes, then those behind them.
    """
    rank = len(widths) // 2
    return [0, *widths[:rank], 0], [0, *widths[rank:], 0]


def pad(rewriter: Rewriter, x: Any, padding: tuple[int, ...]) -> Any:
    """Return ``x`` with borders; ``padding`` is what :data:`PADDING` holds."""
    *widths, value = padding
    before, after = sides(widths)

    def define(t: te.Tensor) -> te.Tensor:
        return topi.nn.pad(t, before, after, tirx.const(value, str(t.dtype)), name="pad")

    return rewriter.builder_.emit_te(
        lambda t: by_bits(t, define),
        x,
        primfunc_name_hint="pad",
        primfunc_attrs={PADDING: [*padding], FUSION: INJECTIVE},
    )


def padding_of(mod: tvm.IRModule, call: relax.Call) -> tuple[int, ...] | None:
    """Return what :data:`PADDING` holds if ``call`` is one of a function that only pads."""
    if op_name(call) != "call_tir":
        return None
    attrs = mod[call.args[0]].attrs
    return tuple(int(w) for w in attrs[PADDING]) if PADDING in attrs else None


def border_widths(pad: relax.Call, layout: str) -> list[int] | None:
    """Return what a pad puts before all spatial axes, then behind; ``None`` if not all is so."""
    widths = [int(w) for w in pad.attrs.pad_width]
    pairs = dict(zip(layout, zip(widths[::2], widths[1::2], strict=True), strict=True))
    sides = [pairs.pop("N"), pairs.pop("C")]
    if str(pad.attrs.pad_mode) != "constant" or any(map(any, sides)) or min(widths) < 0:
        return None
    return [before for before, _ in pairs.values()] + [behind for _, behind in pairs.values()]
