"""Transposed convolutions as convolutions, whose kernels and layouts the later passes know."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.sym import Analyzer

from tvm_sparse.passes.graph.convolution import CONVOLUTIONS
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, shape_of, static_shape

TRANSPOSED = {f"{name}_transpose": form for name, form in CONVOLUTIONS.items()}
"""The forms of plain convolutions, by the names of transposed ones."""


@dataclass(frozen=True)
class Phase:
    """Every ``stride``-th output of a transposed convolution along one axis.

    It is a plain convolution with ``taps`` of the kernel from ``first`` on, ``step`` apart and
    turned around. Its input has ``before`` and ``after`` zeros around it; where these are negative,
    so many elements less.
    """

    taps: int
    first: int = 0
    step: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a transposed convolution.

    ``further`` are the outputs beyond ``stride`` for each of the inputs, whose ``extent`` may be
    symbolic.
    """

    extent: Any
    kernel: int
    stride: int
    dilation: int
    before: int
    further: int

    @property
    def output(self) -> Any:
        """Outputs."""
        return self.extent * self.stride + self.further

    @property
    def longer(self) -> int:
        """How many outputs each phase has more than there are inputs."""
        return -(-self.further // self.stride)

    @property
    def steps(self) -> Any:
        """Outputs of each phase; those behind the last output are cut off."""
        return self.extent + self.longer

    def phase(self, number: int) -> Phase:
        """Return the phase of the outputs ``number``, ``number + stride`` and so on.

        Output ``j`` meets tap ``t`` at the input ``j + shift - (t * dilation - rest) / stride``.
        """
        shift, rest = divmod(number + self.before, self.stride)
        taps = [t for t in range(self.kernel) if (t * self.dilation - rest) % self.stride == 0]
        if not taps:
            return Phase(0)
        first, last = ((t * self.dilation - rest) // self.stride for t in (taps[0], taps[-1]))
        common = math.gcd(self.dilation, self.stride)
        return Phase(
            taps=len(taps),
            first=taps[0],
            step=self.stride // common,
            dilation=self.dilation // common,
            before=last - shift,
            after=self.longer + shift - first,
        )


def _lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) not in TRANSPOSED:
        return None
    form, attrs = TRANSPOSED[op_name(call)], call.attrs
    axes = form.data[1:-1]
    x, output = shape_of(call.args[0]), shape_of(call)
    weight = static_shape(call.args[1])
    plain = (str(attrs.data_layout), str(attrs.kernel_layout)) == (f"NC{axes}", f"IO{axes}")
    if not plain or x is None or weight is None or output is None:
        return None
    further = [
        _difference(n, m, int(stride))
        for n, m, stride in zip(output[2:], x[2:], attrs.strides, strict=True)
    ]
    known = [n for n in further if n is not None]
    return _Layer(rewriter, call, x[2:], weight, known).lowered() if known == further else None


def _difference(output: Any, extent: Any, stride: int) -> int | None:
    """Return ``output - stride * extent``, ``None`` if it is no number."""
    found = output - extent * stride
    found = found if isinstance(found, int) else Analyzer().simplify(found)
    return int(found) if isinstance(found, int | tirx.IntImm) else None


class _Layer:
    """One transposed convolution of ``extents``, and ``further`` outputs an axis."""

    def __init__(
        self,
        rewriter: Rewriter,
        call: relax.Call,
        extents: Any,
        weight: Any,
        further: Sequence[int],
    ) -> None:
        self.rewriter, self.call, self.weight = rewriter, call, weight
        self.form, attrs = TRANSPOSED[op_name(call)], call.attrs
        self.groups, self.rank = int(attrs.groups), len(extents)
        lists = (attrs.strides, attrs.dilation, list(attrs.padding)[: self.rank])
        numbers = ([int(v) for v in values] for values in lists)
        found = zip(extents, weight[2:], *numbers, further, strict=True)
        self.axes = [Axis(*values) for values in found]

    def lowered(self) -> Any:
        """Return the outputs of all phases side by side."""
        numbers = itertools.product(*(range(axis.stride) for axis in self.axes))
        phases = [
            [axis.phase(n) for axis, n in zip(self.axes, number, strict=True)] for number in numbers
        ]
        last = [0, *range(2, self.rank + 2), 1]
        x = self._emit(relax.op.permute_dims(self.call.args[0], last))
        alike = all(_where(phase) == _where(phases[0]) for phase in phases)
        if alike and self.groups == 1:
            weights = [self._kernel(phase) for phase in phases]
            weight = self._emit(relax.op.concat(weights, axis=0)) if phases[1:] else weights[0]
            joined = self._convolution(x, weight, phases[0])
        else:
            parts = [self._output(x, phase) for phase in phases]
            joined = self._emit(relax.op.concat(parts, axis=-1))
        first = [0, self.rank + 1, *range(1, self.rank + 1)]
        return relax.op.permute_dims(self._emit(self._tiles(joined)), first)

    def _output(self, x: Any, phase: Sequence[Phase]) -> Any:
        """Return what one phase gives, zeros where it has no taps."""
        if all(p.taps for p in phase):
            return self._convolution(x, self._kernel(phase), phase)
        shape = [self.call.ty.shape[0], *(axis.steps for axis in self.axes), self._features]
        return self._emit(relax.op.zeros(relax.ShapeExpr(shape), str(self.call.ty.dtype)))

    @property
    def _features(self) -> int:
        return int(self.weight[1]) * self.groups

    def _convolution(self, x: Any, weight: Any, phase: Sequence[Phase]) -> Any:
        begins = [max(0, -p.before) for p in phase]
        behind = [max(0, -p.after) for p in phase]
        if any(begins) or any(behind):
            ends = [axis.extent - n for axis, n in zip(self.axes, behind, strict=True)]
            x = self._emit(self._cut(x, begins, ends))
        padding = [max(0, p.before) for p in phase] + [max(0, p.after) for p in phase]
        return self._emit(
            self.form.operator(
                x,
                weight,
                padding=padding,
                dilation=[p.dilation for p in phase],
                groups=self.groups,
                data_layout=self.form.data,
                kernel_layout=self.form.kernel,
                out_dtype=self.call.attrs.out_dtype,
            )
        )

    def _kernel(self, phase: Sequence[Phase]) -> Any:
        """``(in, out / groups, *kernel)`` --> ``(out, *taps, in / groups)``, turned around."""
        taps = [p.taps for p in phase]
        inputs, outputs = self.weight[0] // self.groups, self.weight[1]
        spatial = list(range(2, self.rank + 2))
        weight = self.call.args[1]
        if taps != list(self.weight[2:]):
            first = [p.first for p in phase]
            end = [p.first + (p.taps - 1) * p.step + 1 for p in phase]
            step = [p.step for p in phase]
            weight = self._emit(relax.op.strided_slice(weight, spatial, first, end, step))
        for axis, extent in zip(spatial, taps, strict=True):
            if extent > 1:
                weight = self._emit(relax.op.flip(weight, axis))
        parted = self._emit(relax.op.reshape(weight, [self.groups, inputs, outputs, *taps]))
        moved = self._emit(relax.op.permute_dims(parted, [0, 2, *(a + 1 for a in spatial), 1]))
        return self._emit(relax.op.reshape(moved, [self._features, *taps, inputs]))

    def _tiles(self, joined: Any) -> Any:
        """``(n, *steps, phases * out)`` --> ``(n, *outputs, out)``."""
        steps, strides = ([getattr(a, n) for a in self.axes] for n in ("steps", "stride"))
        batch, features = self.call.ty.shape[0], self._features
        if self.rank > 1 and max(strides) > 1:
            split = relax.op.reshape(joined, [batch, *steps, *strides, features])
            pairs = [a for i in range(self.rank) for a in (1 + i, 1 + self.rank + i)]
            order = [0, *pairs, 2 * self.rank + 1]
            joined = self._emit(relax.op.permute_dims(self._emit(split), order))
        whole = [s * n for s, n in zip(strides, steps, strict=True)]
        tiles = relax.op.reshape(joined, [batch, *whole, features])
        if all(axis.longer * axis.stride == axis.further for axis in self.axes):
            return tiles
        outputs = [axis.output for axis in self.axes]
        return self._cut(self._emit(tiles), [0] * self.rank, outputs)

    def _cut(self, x: Any, begins: list[int], ends: list[Any]) -> Any:
        """Return channels-last ``x`` from ``begins`` to ``ends``, which are inside."""
        if all(isinstance(end, int) for end in ends):
            return relax.op.strided_slice(x, list(range(1, self.rank + 1)), begins, ends)
        # TVM's slice has extents of minima and maxima where bounds are symbolic.
        first = [0, *begins, 0]

        def cut(t: te.Tensor) -> te.Tensor:
            # Simplified, as extents elsewhere are: TVM compares them by their form.
            pairs = zip(begins, ends, strict=True)
            inside = [Analyzer().simplify(tirx.convert(end - begin)) for begin, end in pairs]
            shape = [t.shape[0], *inside, t.shape[-1]]
            return te.compute(
                shape, lambda *i: t(*(a + b for a, b in zip(i, first, strict=True))), "cut"
            )

        return self.rewriter.builder_.call_te(cut, x, primfunc_name_hint="cut")

    def _emit(self, expr: relax.Expr) -> Any:
        return self.rewriter.emit(expr)


def _where(phase: Sequence[Phase]) -> list[tuple[int, ...]]:
    """Return what phases must have in common to be features of one convolution."""
    return [(p.taps, p.dilation, p.before, p.after) for p in phase if p.taps] or [()]


@tvm.transform.module_pass(opt_level=0, name="TransposedConvolution")
@dataclass(frozen=True)
class TransposedConvolution:
    """Write transposed convolutions with plain ones, channels last.

    before: ``conv2d_transpose(x, w, strides=2)``
    after:  ``tiles(concat(conv2d(x, w0), conv2d(x, w1), conv2d(x, w2), conv2d(x, w3)))``

    Each output phase (outputs ``stride`` apart) is a convolution with a part of the taps. So no
    zero is multiplied that was no weight. Zeros of the weight stay where they are. Phases that
    read the same inputs are features of one convolution.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module without transposed convolutions."""
        return rewrite(mod, _lower)
