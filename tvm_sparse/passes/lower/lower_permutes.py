"""Transpositions that move the contiguous axis become functions that move tiles in registers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.tensors.borders import Borders
from tvm_sparse.ops.tensors.permute import Permutation, permute
from tvm_sparse.ops.transpose import LANES
from tvm_sparse.passes.bytes.quantization import BYTES
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.padding import padding_of
from tvm_sparse.passes.graph.rewrite import Rewriter, count_uses, op_name, rewrite, static_shape


class _Lower:
    """The rule; remembers what its functions transpose, so that a function may write borders."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.uses = count_uses(mod["main"])
        self.plain: dict[str, Permutation] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) == "call_tir":
            return self._bordered(rewriter, call)
        if op_name(call) != "permute_dims" or str(call.ty.dtype) not in (FLOAT_SUMS, *BYTES):
            return None
        shape = static_shape(call.args[0])
        if shape is None or 0 in shape:
            return None
        axes = call.attrs.axes
        order = range(len(shape))[::-1] if axes is None else [int(a) % len(shape) for a in axes]
        plain = Permutation.of(shape, order)
        extents, source = call.ty.shape.values, call.args[0]
        while op_name(before := rewriter.resolve(source)) == "reshape":
            source = before.args[0]
        floats = str(call.ty.dtype) == FLOAT_SUMS
        between = plain.interleaves() and not (floats and _fuses(rewriter, before))
        if not (between or (floats and plain.turns_tiles())):
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
        before = rewriter.resolve(turned)
        if op_name(before) != "call_tir" or before.args[0].name_hint not in self.plain:
            return None
        plain = self.plain[before.args[0].name_hint]
        images, *inside, channels = static_shape(turned) or ()
        borders, extents = Borders.of(inside, padding), call.ty.shape.values
        moved = _channels_last(images, math.prod(inside), channels)
        lines = plain.interleaves() and inside[-1] % LANES == 0
        if plain != moved or not (lines or plain.turns_tiles()):
            return None
        return rewriter.builder_.call_te(
            lambda x: permute(x, plain, extents, borders),
            before.args[1].fields[0],
            primfunc_name_hint="permute_bordered",
        )


def _fuses(rewriter: Rewriter, expr: Any) -> bool:
    """Whether ``expr`` is computed by element, and not by the operator that it follows."""
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

    Others keep TVM's definition, which fuses; so do planes that are computed by element.

    before: ``permute_dims(x, [0, 2, 3, 1])``
    after:  ``call_tir(permute, (x,))``

    Where nothing but a copy with borders reads the result of one, it writes the borders itself.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _Lower(mod))
