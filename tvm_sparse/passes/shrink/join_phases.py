"""Pruned convolutions of one tensor, side by side, become one: its pixels move once for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.notes import Notes
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS, is_channels_last, options_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    count_uses,
    layer_name,
    name_of,
    op_name,
    rewrite,
    static_shape,
)
from tvm_sparse.passes.graph.views import begins_of
from tvm_sparse.patterns.detector import detect
from tvm_sparse.patterns.unstructured import Unstructured

ZEROS = 0.7
"""Share of zeros from which on formats of nonzeros win: they skip those of a wider window too."""


@dataclass(frozen=True)
class _Part:
    """A convolution, and for each spatial axis the pixel that output 0 begins at."""

    call: relax.Call
    source: Any
    weight: Any
    value: np.ndarray
    first: tuple[int, ...]

    @property
    def last(self) -> tuple[int, ...]:
        """For each spatial axis, the last pixel that output 0 reads."""
        taps = self.value.shape[1:-1]
        return tuple(first + taps - 1 for first, taps in zip(self.first, taps, strict=True))


def _part_of(rewriter: Rewriter, operand: Any) -> _Part | None:
    """Return ``operand`` if it is a pruned convolution without strides and dilation."""
    call = rewriter.resolve(operand)
    weight = rewriter.constant(call.args[1]) if is_channels_last(call) else None
    if weight is None or str(call.ty.dtype) != FLOAT_SUMS or int(call.attrs.groups) > 1:
        return None
    value, rank = array_of(weight), len(call.attrs.strides)
    steps = {int(s) for s in (*call.attrs.strides, *call.attrs.dilation)}
    if steps != {1} or np.count_nonzero(value) > (1 - ZEROS) * value.size:
        return None
    begins, source = [0] * rank, call.args[0]
    cut = rewriter.resolve(source)
    if op_name(cut) == "strided_slice":
        whole, left = static_shape(cut.args[0]), static_shape(cut)
        found = None if whole is None or left is None else begins_of(cut, whole, left)
        if found is None or found[0] or found[-1]:
            return None
        begins, source = list(found[1:-1]), cut.args[0]
    padding = [int(p) for p in call.attrs.padding]
    first = tuple(b - p for b, p in zip(begins, padding[:rank], strict=True))
    return _Part(call, source, weight, value, first)


@tvm.transform.module_pass(opt_level=0, name="JoinPhases")
@dataclass(frozen=True)
class JoinPhases:
    """Write pruned convolutions of one tensor as features of one convolution.

    before: ``concat(conv1d(x, w0: (f, 2, c), padding=(1, 0)), conv1d(x, w1, padding=(0, 1)))``
    after:  ``conv1d(x, w: (2 * f, 3, c), padding=(1, 1))``

    So are the phases of a transposed convolution. Its window holds those of all; what a part does
    not read is zero, and costs nothing where only nonzeros are stored. Parts whose zeros follow a
    pattern stay: the window would break it. ``notes`` gets a phrase for each weight, ``widened``
    the names of layers whose weights have such zeros.
    """

    notes: Notes = field(default_factory=Notes)
    widened: set[str] = field(default_factory=set)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with fewer convolutions."""
        uses = count_uses(mod["main"])

        def rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
            if op_name(call) != "concat" or static_shape(call) is None:
                return None
            pieces, before = rewriter.resolve(call.args[0]), rewriter.original.args[0]
            rank = len(call.ty.shape)
            features = call.attrs.axis is not None and int(call.attrs.axis) % rank == rank - 1
            if not features or not all(isinstance(p, relax.Tuple) for p in (pieces, before)):
                return None
            found = [_part_of(rewriter, operand) for operand in pieces.fields]
            parts = [part for part in found if part is not None]
            once = all(uses.get(operand) == 1 for operand in before.fields)
            whole = once and len(parts) == len(found)
            return self._joined(call, parts) if whole else None

        return rewrite(mod, rule)

    def _joined(self, call: relax.Call, parts: Sequence[_Part]) -> Any | None:
        """Return the convolution that gives what ``parts`` do, one after the other."""
        source, rank = parts[0].source, len(parts[0].first)
        inputs, outputs = static_shape(source), static_shape(call)
        if inputs is None or outputs is None or not all(p.source.same_as(source) for p in parts):
            return None
        first = [min(p.first[axis] for p in parts) for axis in range(rank)]
        taps = [1 + max(p.last[axis] for p in parts) - first[axis] for axis in range(rank)]
        axes = zip(inputs[1:-1], outputs[1:-1], first, taps, strict=True)
        behind = [steps - 1 + begin + window - extent for extent, steps, begin, window in axes]
        if max(first) > 0 or min(behind) < 0 or not all(map(_plain, parts)):
            return None
        pieces = [_widened(p, first, taps) for p in parts]
        weight = self._named(np.concatenate(pieces), parts)
        like = parts[0].call
        options = options_of(like) | {"padding": [*(-begin for begin in first), *behind]}
        return CONVOLUTIONS[op_name(like)].operator(source, weight, **options)

    def _named(self, value: np.ndarray, parts: Sequence[_Part]) -> Any:
        """Return the weight of all ``parts``, called like them, and note what it is."""
        names = {name_of(p.weight).partition("[")[0] for p in parts}
        weight = constant(value, names.pop() if len(names) == 1 else name_of(parts[0].weight))
        share = 1 - sum(p.value.size for p in parts) / value.size
        phrase = f"{len(parts)} convolutions of one tensor as features of one"
        if share:
            self.widened.add(layer_name(weight))
        self.notes.add(layer_name(weight), f"{phrase}, {share:.0%} of it zeros between them")
        return weight


def _plain(part: _Part) -> bool:
    """Whether the zeros of a part follow no pattern."""
    return isinstance(detect(np.moveaxis(part.value, -1, 1)).best.pattern, Unstructured)


def _widened(part: _Part, first: Sequence[int], taps: Sequence[int]) -> np.ndarray:
    """Return the weight ``(features, *taps, channels)`` of a part in the window of all."""
    features, *own, columns = part.value.shape
    wide = np.zeros((features, *taps, columns), part.value.dtype)
    begins = [f - begin for f, begin in zip(part.first, first, strict=True)]
    inside = (slice(begin, begin + n) for begin, n in zip(begins, own, strict=True))
    wide[(slice(None), *inside)] = part.value
    return wide
