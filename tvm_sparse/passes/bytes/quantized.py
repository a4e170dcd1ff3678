"""Layers of a quantized network as contractions of integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm import relax
from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS, INTEGERS
from tvm_sparse.formats.offsets import MOST_MAGNITUDE
from tvm_sparse.machine.engine.registry import supported
from tvm_sparse.ops.bytes.quantize import less_zero, rescaled_rows
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.passes.bytes.dynamic_meaning import (
    DynamicMeaning,
    centred_bytes,
    dynamic_meaning_of,
    is_one,
)
from tvm_sparse.passes.bytes.quantization import behind_casts, meaning_of
from tvm_sparse.passes.bytes.weight_steps import LARGEST, Steps, find_steps
from tvm_sparse.passes.graph.rewrite import Rewriter, constant

_NO_STEPS = f"weights are no whole multiples, up to {LARGEST}, of a step a feature"


@dataclass(frozen=True)
class Integers:
    """The operands of a contraction as integers.

    Parameters
    ----------
    x
        Bytes instead of the floats that they mean.
    zero_point
        The byte that means zero.
    weight
        Bytes less their zero points, int16, features first.
    factors
        What a step of each feature's sum means, times ``size`` if that is given; ``None`` where
        sums stay integers.
    size
        What a step of each row means, if that is known only when the network runs.
    zero
        The bytes that mean zero, if these are; ``zero_point`` is zero then.
    """

    x: Any
    zero_point: int
    weight: np.ndarray = field(repr=False)
    factors: np.ndarray | None = field(repr=False)
    size: Any = None
    zero: Any = None

    @property
    def dtype(self) -> str:
        """The type of the bytes."""
        return str(self.x.ty.dtype)

    @property
    def zero_is_zero(self) -> bool:
        """Whether the byte zero means zero."""
        return self.zero is None and self.zero_point == 0

    def contraction(self, c: Contraction) -> Contraction:
        """Return ``c`` with these numbers."""
        numerics = next(n for n in INTEGERS if n.activation == self.dtype)
        return replace(c, numerics=numerics, zero_point=self.zero_point)

    def meaning(self, rewriter: Rewriter, sums: Any) -> Any:
        """Return what ``sums`` mean."""
        sums = rewriter.emit(sums)
        if self.zero is not None:
            rows = self.weight.reshape(len(self.weight), -1)
            weights = constant(rows.sum(1, dtype=INTEGER_SUMS))
            sums = rewriter.builder_.emit_te(less_zero, sums, self.zero, weights)
        if self.factors is None:
            return sums
        factors = constant(self.factors)
        if self.size is None:
            return relax.op.multiply(rewriter.emit(relax.op.astype(sums, FLOAT_SUMS)), factors)
        return rewriter.builder_.emit_te(rescaled_rows, sums, factors, self.size)


def signed_bytes(weight: np.ndarray) -> Iterator[np.ndarray]:
    """Yield signed bytes that add up to ``weight``: what it saturates to, then the rest if any.

    Bytes with the zero point 120 go up to 135. The few beyond 127 leave a rest that is sparse.
    """
    limits = np.iinfo(INTEGERS[0].weight)
    part = weight.clip(limits.min, limits.max)
    yield part.astype(limits.dtype)
    if (part != weight).any():
        yield from signed_bytes(weight - part)


def integers_of(
    rewriter: Rewriter, x: Any, weight: np.ndarray, target: Target, *, by_row: bool
) -> Integers | str:
    """Return a layer's operands as integers, or why they are none (empty: ``x`` is no bytes).

    ``weight`` has its features first. What bytes mean may differ between rows of the input only
    where a row of the output is computed from a single one, ``by_row``. Casts of what bytes mean to
    halves are left out: products of bytes are exact.
    """
    x, dtype = behind_casts(rewriter, x)
    meaning = meaning_of(rewriter, x) or dynamic_meaning_of(rewriter, x)
    if meaning is None:
        return ""
    if isinstance(meaning, DynamicMeaning) and not by_row:
        if not (is_one(meaning.size) and is_one(meaning.zero)):
            return "what its input means differs between places that a window covers"
    steps = find_steps(weight) or find_steps(weight, dtype)
    if steps is None:
        return _NO_STEPS
    if reason := _refused(str(meaning.bytes.ty.dtype), steps.integers, target):
        return reason
    if isinstance(meaning, DynamicMeaning):
        zeros = _zeros(meaning.zero)
        return Integers(
            meaning.bytes, zeros[0], steps.integers, steps.sizes, meaning.size, zeros[1]
        )
    factors = (steps.sizes * np.dtype(FLOAT_SUMS).type(meaning.scale.scale)).astype(FLOAT_SUMS)
    return Integers(meaning.bytes, meaning.scale.zero_point, steps.integers, factors)


def whole_integers_of(
    rewriter: Rewriter, x: Any, weight: np.ndarray, target: Target, *, by_row: bool
) -> Integers | str:
    """Return the same of a layer that the model itself writes with integers, as its sums are."""
    found = centred_bytes(rewriter, x)
    if found is None or not (by_row or is_one(found[1])):
        return "its input is no tensor of bytes less one that means zero"
    if weight.min(initial=0) < -LARGEST or weight.max(initial=0) > LARGEST:
        return f"weights are beyond {LARGEST}, which no bytes less a zero point are"
    weight = weight.astype(np.int16)
    if reason := _refused(str(found[0].ty.dtype), weight, target):
        return reason
    zero_point, zero = _zeros(found[1])
    return Integers(found[0], zero_point, weight, None, zero=zero)


def state_steps(weight: np.ndarray, target: Target) -> Steps | str:
    """Return a weight of (features, columns) as signed bytes to multiply bytes with, or why not."""
    steps, limits = find_steps(weight), np.iinfo(INTEGERS[0].weight)
    if steps is None:
        return _NO_STEPS
    low, high = steps.integers.min(initial=0), steps.integers.max(initial=0)
    if low < limits.min or high > limits.max:
        return "weights are beyond signed bytes"
    return _refused(INTEGERS[0].activation, steps.integers, target) or steps


def _zeros(zero: Any) -> tuple[int, Any]:
    """Return the constant zero point, and the one that is computed."""
    return (zero, None) if isinstance(zero, int) else (0, zero)


def _refused(dtype: str, weight: np.ndarray, target: Target) -> str:
    """Return why bytes cannot be multiplied with ``weight``; empty if they can."""
    if not any(n.activation == dtype and supported(n, target) for n in INTEGERS):
        return f"no operators of {dtype} on this target"
    rows = np.abs(weight.reshape(len(weight), -1).astype(np.int32)).sum(1)
    return "its sums may leave 32 bits" if rows.max(initial=0) > MOST_MAGNITUDE else ""
