"""What a contraction multiplies, adds up and writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import ml_dtypes  # noqa: F401 - NumPy then knows bfloat16 and fp8
import numpy as np

FLOAT_SUMS = "float32"
"""What floats are added up in, whatever is multiplied."""

INTEGER_SUMS = "int32"
"""The same of integers: sums are exact."""

DOUBLE = "float64"
"""Floats of double precision, which are added up in the same."""

WHOLE = 1.5 * 2.0**23
"""Around it, and from 2^23 to 2^24, neighbours of :data:`FLOAT_SUMS` are one apart."""


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a type of floats."""
    return "float" in dtype


def sums_of(dtype: str) -> str:
    """Return what numbers of ``dtype`` are added up in."""
    return DOUBLE if dtype == DOUBLE else FLOAT_SUMS if is_float(dtype) else INTEGER_SUMS


def is_signed(dtype: str) -> bool:
    """Whether ``dtype`` is a type of numbers below zero, too."""
    return not dtype.startswith("u")


def bits_of(dtype: str) -> int:
    """Return the bits that a value of ``dtype`` has in memory."""
    found = re.search(r"\d+", dtype)
    return int(found[0]) if found else 8  # bool


def vector_type(dtype: str, lanes: int) -> str:
    """Return TVM's name of ``lanes`` values of ``dtype`` side by side; of one, ``dtype``."""
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def samples(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return random activations: normal floats, or integers of the whole range."""
    if is_float(dtype):
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@dataclass(frozen=True)
class Numerics:
    """The dtypes of one contraction; scales and zero points are operands of what follows it.

    Parameters
    ----------
    activation
        Of the input.
    weight
        Of the values that are stored; they are multiplied in the type of the sums.
    accumulate
        Of the sums.
    output
        Of the result: sums are rounded to it once.
    """

    activation: str
    weight: str
    accumulate: str
    output: str

    @classmethod
    def uniform(cls, dtype: str, output: str = "") -> Numerics:
        """Return those of input and weights of ``dtype``; so is the output, unless it is given."""
        return cls(dtype, dtype, sums_of(dtype), output or dtype)

    @property
    def bits(self) -> int:
        """Bits of an activation."""
        return bits_of(self.activation)

    @property
    def floating(self) -> bool:
        """Whether activations, weights and results are floats."""
        return all(map(is_float, (self.activation, self.weight, self.output)))

    @property
    def widens(self) -> bool:
        """Whether weights are floats of fewer bits than the sums."""
        return is_float(self.weight) and self.weight != self.accumulate

    def with_weights(self, dtype: str) -> Numerics:
        """Return the same with weights stored as ``dtype``."""
        return replace(self, weight=dtype)

    def __str__(self) -> str:
        """Return a phrase for errors and reports."""
        types = [self.activation]
        types += [f"weights {self.weight}"] if self.weight != self.activation else []
        types += [f"output {self.output}"] if self.output != self.activation else []
        return ", ".join(types)


FLOAT32 = Numerics.uniform("float32")
"""The default: nothing is rounded but sums."""

INTEGERS = tuple(
    Numerics(activation, "int8", INTEGER_SUMS, INTEGER_SUMS) for activation in ("uint8", "int8")
)
"""Quantized networks: sums are exact, and what follows scales and rounds them."""

BYTE_PRODUCTS = tuple(
    Numerics(left, right, INTEGER_SUMS, INTEGER_SUMS)
    for left in ("uint8", "int8")
    for right in ("int8", "uint8")
)
"""Products of two activations of such networks, whose right operand may be unsigned, too."""

FLOAT64 = Numerics.uniform(DOUBLE)
"""Networks in double precision."""

BFLOATS = tuple(Numerics.uniform("bfloat16", output) for output in (FLOAT_SUMS, "bfloat16"))
"""Networks in half precision: what is multiplied has eight bits, sums are those of floats."""

HALVES = ("bfloat16", "float16")
"""The types in half precision, smaller rounding errors last."""
