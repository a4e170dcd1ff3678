"""Layers of a quantised network as contractions of integers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.engine.registry import supported
from tvm_sparse.formats.offsets import MOST_MAGNITUDE
from tvm_sparse.numerics import FLOAT_SUMS, INTEGER_SUMS, INTEGERS
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.quantise import rescaled, rescaled_rows
from tvm_sparse.passes.dynamic_meaning import DynamicMeaning, dynamic_meaning_of
from tvm_sparse.passes.quantisation import meaning_of
from tvm_sparse.passes.rewrite import Rewriter, constant
from tvm_sparse.passes.weight_steps import find_steps


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
        int8, features first.
    factors
        What a step of each feature's sum means, times ``size`` if that is given.
    size
        What a step of each row means, if that is known only when the network runs.
    zero
        The bytes that mean zero, if these are.
    """

    x: Any
    zero_point: int
    weight: np.ndarray = field(repr=False)
    factors: np.ndarray = field(repr=False)
    size: Any = None
    zero: Any = None

    @property
    def dtype(self) -> str:
        """The type of the bytes."""
        return str(self.x.ty.dtype)

    def contraction(self, c: Contraction) -> Contraction:
        """Return ``c`` with these numbers."""
        numerics = next(n for n in INTEGERS if n.activation == self.dtype)
        return replace(c, numerics=numerics, zero_point=self.zero_point)

    def meaning(self, sweep: Rewriter, sums: Any) -> Any:
        """Return what ``sums`` mean, as floats."""
        sums, factors = sweep.emit(sums), constant(self.factors)
        if self.size is None:
            return sweep.builder_.emit_te(rescaled, sums, factors)
        terms = []
        if self.zero is not None:
            rows = self.weight.reshape(len(self.weight), -1)
            terms = [self.zero, constant(rows.sum(1, dtype=INTEGER_SUMS))]
        return sweep.builder_.emit_te(rescaled_rows, sums, factors, self.size, *terms)


def integers_of(sweep: Rewriter, x: Any, weight: np.ndarray, target: Target) -> Integers | str:
    """Return a layer's operands as integers, or why they are none (empty: ``x`` is no bytes).

    ``weight`` has its features first.
    """
    static = meaning_of(sweep, x)
    meaning = static or dynamic_meaning_of(sweep, x)
    if meaning is None:
        return ""
    dtype = str(meaning.bytes.ty.dtype)
    if not any(n.activation == dtype and supported(n, target) for n in INTEGERS):
        return f"no operators of {dtype} on this target"
    steps = find_steps(weight)
    if steps is None:
        return "weights are no whole multiples, up to 127, of a step a feature"
    rows = np.abs(steps.integers.reshape(len(weight), -1).astype(np.int32)).sum(1)
    if rows.max(initial=0) > MOST_MAGNITUDE:
        return "its sums may leave 32 bits"
    if isinstance(meaning, DynamicMeaning):
        known = isinstance(meaning.zero, int)
        zero_point, zero = (meaning.zero, None) if known else (0, meaning.zero)
        return Integers(meaning.bytes, zero_point, steps.integers, steps.sizes, meaning.size, zero)
    factors = (steps.sizes * np.dtype(FLOAT_SUMS).type(meaning.scale.scale)).astype(FLOAT_SUMS)
    return Integers(meaning.bytes, meaning.scale.zero_point, steps.integers, factors)
