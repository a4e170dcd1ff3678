"""Taps of a convolution that meet nothing but borders leave its kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.notes import Notes
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS, is_channels_last, options_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    layer_name,
    name_of,
    op_name,
    rewrite,
    static_shape,
)


@dataclass(frozen=True)
class _Axis:
    """One spatial axis of a convolution."""

    extent: int
    output: int
    taps: int
    stride: int
    dilation: int
    before: int
    after: int

    def kept(self) -> tuple[int, int]:
        """Return the first tap that meets an element, and the end of those that do.

        Other taps go as far as the borders that they meet are there to go with them.
        """
        first, end = 0, self.taps
        while end - first > 1 and not self._meets(first) and self.before >= self._width(first + 1):
            first += 1
        while (
            end - first > 1
            and not self._meets(end - 1)
            and self.after >= self._width(self.taps - end + 1)
        ):
            end -= 1
        return first, end

    def padding(self, first: int, end: int) -> tuple[int, int]:
        """Return the borders that the taps from ``first`` to ``end`` need."""
        return self.before - self._width(first), self.after - self._width(self.taps - end)

    def _width(self, taps: int) -> int:
        return taps * self.dilation

    def _meets(self, tap: int) -> bool:
        """Whether ``tap`` reads an element for any output."""
        start = tap * self.dilation - self.before
        places = range(start, start + (self.output - 1) * self.stride + 1, self.stride)
        return any(0 <= place < self.extent for place in places)


@tvm.transform.module_pass(opt_level=0, name="RemoveTaps")
@dataclass(frozen=True)
class RemoveTaps:
    """Make kernels smaller by their first and last taps that only ever read borders.

    before: ``conv2d(x: (1, 14, 14, c), w: (o, 3, 3, c), padding=36, dilation=36)``
    after:  ``conv2d(x, w[:, 1:2, 1:2], padding=0)``

    Pyramids of dilated convolutions have such taps wherever an image is smaller than they were
    made for. ``notes`` gets a phrase for each layer with a smaller kernel.
    """

    notes: Notes = field(default_factory=Notes)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with smaller kernels."""
        return rewrite(mod, self._smaller)

    def _smaller(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if not is_channels_last(call):
            return None
        weight, shapes = (
            rewriter.constant(call.args[1]),
            [static_shape(v) for v in (*call.args, call)],
        )
        if weight is None or None in shapes:
            return None
        options = options_of(call)
        x, kernel, output = (shape[1:-1] for shape in shapes if shape)
        rank = len(kernel)
        borders = options["padding"][:rank], options["padding"][rank:]
        numbers = (x, output, kernel, options["strides"], options["dilation"], *borders)
        axes = [_Axis(*values) for values in zip(*numbers, strict=True)]
        kept = [axis.kept() for axis in axes]
        if all(ends == (0, axis.taps) for ends, axis in zip(kept, axes, strict=True)):
            return None
        value = array_of(weight)[(slice(None), *(slice(*ends) for ends in kept))]
        before, after = zip(
            *(axis.padding(*ends) for axis, ends in zip(axes, kept, strict=True)), strict=True
        )
        self._note(layer_name(weight), kernel, value.shape[1:-1])
        smaller = constant(np.ascontiguousarray(value), name_of(weight))
        operator = CONVOLUTIONS[op_name(call)].operator
        return operator(call.args[0], smaller, **options | {"padding": [*before, *after]})

    def _note(self, layer: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        taps = [" x ".join(map(str, kernel)) for kernel in (after, before)]
        self.notes.add(layer, f"{taps[0]} of {taps[1]} taps meet more than borders")
