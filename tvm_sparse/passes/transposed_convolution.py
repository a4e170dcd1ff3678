"""Transposed convolutions as convolutions, whose kernels and layouts the later passes know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.passes.rewrite import Rewriter, op_name, rewrite, static_shape

_FORWARD = {
    "nn.conv1d_transpose": (relax.op.nn.conv1d, "W"),
    "nn.conv2d_transpose": (relax.op.nn.conv2d, "HW"),
    "nn.conv3d_transpose": (relax.op.nn.conv3d, "DHW"),
}


def _lower(sweep: Rewriter, call: Any) -> Any | None:
    if op_name(call) not in _FORWARD:
        return None
    convolution, axes = _FORWARD[op_name(call)]
    attrs, shapes = call.attrs, [static_shape(a) for a in call.args]
    plain = (str(attrs.data_layout), str(attrs.kernel_layout)) == (f"NC{axes}", f"IO{axes}")
    if not plain or None in shapes:
        return None
    layer = _Layer(sweep, attrs, *shapes)
    x, weight = call.args
    if layer.is_tiling():
        return layer.tiles(convolution(x, layer.columns(weight)), call.ty.shape)
    padded, padding = layer.spread(x)
    return convolution(
        padded,
        layer.flipped(weight),
        padding=padding,
        dilation=layer.dilation,
        groups=layer.groups,
        out_dtype=attrs.out_dtype,
    )


class _Layer:
    """One transposed convolution of static shape."""

    def __init__(self, sweep: Rewriter, attrs: Any, x: Any, weight: Any) -> None:
        self.sweep, self.x, self.weight = sweep, x, weight
        self.kernel, self.groups = weight[2:], int(attrs.groups)
        self.strides, self.dilation = _ints(attrs.strides), _ints(attrs.dilation)
        self.padding, self.extra = _ints(attrs.padding), _ints(attrs.output_padding)

    def is_tiling(self) -> bool:
        """Whether each input pixel has a tile of the output for itself."""
        plain = self.groups == 1 and not any(self.padding) and not any(self.extra)
        return plain and tuple(self.strides) == tuple(self.kernel) and max(self.kernel) > 1

    def columns(self, weight: Any) -> Any:
        """``(in, out, *kernel)`` --> ``(out * taps, in, 1, ...)``: each tap is a feature."""
        rank = len(self.kernel)
        moved = self._emit(relax.op.permute_dims(weight, [1, *range(2, rank + 2), 0]))
        taps = math.prod(self.kernel)
        shape = [self.weight[1] * taps, self.weight[0], *(1 for _ in self.kernel)]
        return self._emit(relax.op.reshape(moved, shape))

    def tiles(self, y: Any, shape: Any) -> Any:
        """``(n, out * taps, *pixels)`` --> the pixels of each tile side by side."""
        rank = len(self.kernel)
        split = [self.x[0], self.weight[1], *self.kernel, *self.x[2:]]
        pairs = [i for axis in range(rank) for i in (2 + rank + axis, 2 + axis)]
        parted = self._emit(relax.op.reshape(self._emit(y), split))
        return relax.op.reshape(self._emit(relax.op.permute_dims(parted, [0, 1, *pairs])), shape)

    def flipped(self, weight: Any) -> Any:
        """``(in, out / groups, *kernel)`` --> ``(out, in / groups, *kernel)``, turned around."""
        inputs, outputs = self.weight[0] // self.groups, self.weight[1]
        for axis, extent in enumerate(self.kernel):
            if extent > 1:
                weight = self._emit(relax.op.flip(weight, axis + 2))
        parted = self._emit(relax.op.reshape(weight, [self.groups, inputs, outputs, *self.kernel]))
        rest = range(3, 3 + len(self.kernel))
        swapped = self._emit(relax.op.permute_dims(parted, [0, 2, 1, *rest]))
        return self._emit(relax.op.reshape(swapped, [self.groups * outputs, inputs, *self.kernel]))

    def spread(self, x: Any) -> tuple[Any, list[int]]:
        """Return ``x`` with zeros between its pixels, and the padding that is still to come."""
        spatial, rank = self.x[2:], len(self.kernel)
        if max(self.strides) > 1:
            parted = [e for extent in spatial for e in (extent, 1)]
            x = self._emit(relax.op.reshape(x, [*self.x[:2], *parted]))
            width = [w for stride in self.strides for w in (0, 0, 0, stride - 1)]
            x = self._emit(relax.op.nn.pad(x, [0, 0, 0, 0, *width]))
            spatial = tuple(e * s for e, s in zip(spatial, self.strides, strict=True))
            x = self._emit(relax.op.reshape(x, [*self.x[:2], *spatial]))
        reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)]
        before = [r - p for r, p in zip(reach, self.padding[:rank], strict=True)]
        after = [
            r - p + e - (s - 1)
            for r, p, e, s in zip(reach, self.padding[rank:], self.extra, self.strides, strict=True)
        ]
        if min(before + after) < 0:
            begin = [max(0, -b) for b in before]
            end = [e - max(0, -a) for e, a in zip(spatial, after, strict=True)]
            axes = list(range(2, 2 + rank))
            x = self._emit(relax.op.strided_slice(x, axes, begin, end))
        return x, [max(0, p) for p in before + after]

    def _emit(self, expr: Any) -> Any:
        return self.sweep.emit(expr)


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


@tvm.transform.module_pass(opt_level=0, name="TransposedConvolution")
@dataclass(frozen=True)
class TransposedConvolution:
    """Write transposed convolutions of static shape with plain ones.

    before: ``conv2d_transpose(x, w, strides=2)`` --> after: ``conv2d(spread(x), flip(w))``

    ``spread`` puts zeros between the pixels. Where strides and kernel are equal, the output is
    made of tiles, one for each input pixel: ``tiles(conv2d(x, columns(w)))``.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module without transposed convolutions."""
        return rewrite(mod, _lower)
