"""Layers of a quantised network as contractions of integers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.engine.registry import supported
from tvm_sparse.formats.offsets import MOST_MAGNITUDE
from tvm_sparse.numerics import FLOAT_SUMS, INTEGERS
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.quantise import rescaled
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
        What a step of each feature's sum means.
    """

    x: Any
    zero_point: int
    weight: np.ndarray = field(repr=False)
    factors: np.ndarray = field(repr=False)

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
        return sweep.builder_.emit_te(rescaled, sweep.emit(sums), constant(self.factors))


def integers_of(sweep: Rewriter, x: Any, weight: np.ndarray, target: Target) -> Integers | str:
    """Return a layer's operands as integers, or why they are none (empty: ``x`` is no bytes).

    ``weight`` has its features first.
    """
    meaning = meaning_of(sweep, x)
    if meaning is None:
        return ""
    if not any(n.activation == meaning.scale.dtype and supported(n, target) for n in INTEGERS):
        return f"no operators of {meaning.scale.dtype} on this target"
    steps = find_steps(weight)
    if steps is None:
        return "weights are no whole multiples, up to 127, of a step a feature"
    rows = np.abs(steps.integers.reshape(len(weight), -1).astype(np.int32)).sum(1)
    if rows.max(initial=0) > MOST_MAGNITUDE:
        return "its sums may leave 32 bits"
    factors = (steps.sizes * np.dtype(FLOAT_SUMS).type(meaning.scale.scale)).astype(FLOAT_SUMS)
    return Integers(meaning.bytes, meaning.scale.zero_point, steps.integers, factors)
