"""Transpositions that move the contiguous axis become functions that move tiles in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.tensors.borders import Borders
from tvm_sparse.ops.tensors.channels_behind import channels_behind
from tvm_sparse.ops.tensors.open_turn import Turn, open_turn
from tvm_sparse.ops.tensors.permute import Permutation, permute
from tvm_sparse.ops.transpose import LANES
from tvm_sparse.passes.bytes.quantization import BYTES
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.padding import padding_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    count_uses,
    op_name,
    rewrite,
    shape_of,
    static_shape,
)


class _Lower:
    """The rule; remembers what its functions transpose, so that a function may write borders."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.uses = count_uses(mod["main"])
        self.plain: dict[str, Permutation | None] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) == "call_tir":
            return self._bordered(rewriter, call)
        if op_name(call) != "permute_dims" or str(call.ty.dtype) not in (FLOAT_SUMS, *BYTES):
            return None
        shape, order = static_shape(call.args[0]), _order(call)
        if shape is None:
            few = self._open(rewriter, call) if order == _last(len(order)) else None
            return _turned(rewriter, call, order) if few is None else few
        if 0 in shape:
            return None
        plain = Permutation.of(shape, order)
        extents, source = call.ty.shape.values, call.args[0]
        while op_name(before := rewriter.resolve(source)) == "reshape":
            source = before.args[0]
        between = plain.interleaves() and not _fuses(rewriter, call, before)
        if not (between or (_is_float(call) and plain.turns_tiles())):
            return None
        lowered = rewriter.builder_.call_te(
            lambda x: permute(x, plain, extents), source, primfunc_name_hint="permute"
        )
        self.plain[lowered.args[0].name_hint] = plain
        return lowered

    def _bordered(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Return a transposition that writes the borders which ``call`` puts around its result."""
        padding = padding_of(rewriter.module, call)
        if padding is None or self.uses.get(rewriter.original.args[1].fields[0]) != 1:
            return None
        turned = call.args[1].fields[0]
        before, shape = rewriter.resolve(turned), shape_of(turned)
        known = op_name(before) == "call_tir" and before.args[0].name_hint in self.plain
        if shape is None or not known:
            return None
        plain = self.plain[before.args[0].name_hint]
        images, *inside, channels = shape
        borders, extents = Borders.of(inside, padding), call.ty.shape.values
        if plain is not None and plain != _channels_last(images, math.prod(inside), channels):
            return None
        if plain is None or plain.interleaves():
            return _behind(rewriter, before.args[1].fields[0], (images, channels, *inside), borders)
        return rewriter.builder_.call_te(
            lambda x: permute(x, plain, extents, borders),
            before.args[1].fields[0],
            primfunc_name_hint="permute_bordered",
        )

    def _open(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Return what moves the few channels of open images, or of open planes, behind them."""
        shape = shape_of(call.args[0]) or []
        channels = shape[1] if len(shape) > 2 else None
        few = isinstance(channels, int) and 1 < channels < LANES
        if not few or _fuses(rewriter, call, rewriter.resolve(call.args[0])):
            return None
        none = (0,) * (len(shape) - 2)
        lowered = _behind(rewriter, call.args[0], shape, Borders(tuple(shape[2:]), none, none))
        self.plain[lowered.args[0].name_hint] = None
        return lowered


def _turned(rewriter: Rewriter, call: relax.Call, order: list[int]) -> Any | None:
    """Return what turns tiles of an open shape, if they are floats.

    Fused behind what computes each of them, a transposition took five times as long as both.
    """
    turn, shape, source = Turn.of(order), shape_of(call.args[0]), call.args[0]
    if turn is None or shape is None or not _is_float(call) or not turn.suits(shape):
        return None
    return rewriter.builder_.call_te(
        lambda x: open_turn(x, turn), source, primfunc_name_hint="open_turn"
    )


def _behind(rewriter: Rewriter, source: Any, shape: Sequence[Any], borders: Borders) -> Any:
    return rewriter.builder_.call_te(
        lambda x: channels_behind(x, shape, borders), source, primfunc_name_hint="channels_behind"
    )


def _order(call: relax.Call) -> list[int]:
    """Return for each axis behind a transposition, which one it was."""
    rank = len(call.ty.shape.values)
    axes = call.attrs.axes
    return [*range(rank)][::-1] if axes is None else [int(a) % rank for a in axes]


def _last(rank: int) -> list[int]:
    """Return the order of axes that brings the second one behind all others."""
    return [0, *range(2, rank), 1]


def _is_float(call: relax.Call) -> bool:
    return str(call.ty.dtype) == FLOAT_SUMS


def _fuses(rewriter: Rewriter, call: relax.Call, expr: Any) -> bool:
    """Whether floats ``expr`` are computed by element, and not by the operator in front."""
    if not _is_float(call):
        return False
    steps = 0
    while op_name(expr) in ELEMENTWISE:
        expr, steps = rewriter.resolve(expr.args[0]), steps + 1
    return steps > 0 and op_name(expr) != "call_tir"


def _channels_last(images: int, positions: int, channels: int) -> Permutation:
    """Return what moves the channels of images behind their positions."""
    return Permutation.of((images, channels, positions), (0, 2, 1))


@tvm.transform.module_pass(opt_level=0, name="LowerPermutes")
@dataclass(frozen=True)
class LowerPermutes:
    """Replace transpositions of whole tiles of fp32, and of a few planes of fp32 and bytes.

    Of open shapes, those that bring a few channels behind all other axes, and of fp32 those where
    two runs of axes change places.

    Others keep TVM's definition, which fuses; so do planes that are computed by element.

    before: ``permute_dims(x, [0, 2, 3, 1])``
    after:  ``call_tir(permute, (x,))``

    Where nothing but a copy with borders reads the result of one, it writes the borders itself.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _Lower(mod))
