"""What a tensor must look like: name, shape (numbers and symbols) and dtype."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Bytes of one element of each dtype that inputs, outputs and weights may have."""

ALIGNMENT = 64
"""Bytes on which compiled kernels assume that a tensor begins, unless they are told otherwise."""

MOST_ELEMENTS = 2**40
"""No tensor has more: whatever a program multiplies them with still fits 64 bits."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Parameters
    ----------
    name
        The name in the exported program.
    shape
        An integer for each static dimension, a symbol such as ``"batch"`` for each dynamic one. A
        symbol that occurs several times stands for one length.
    dtype
        A key of :data:`ITEM_BYTES`.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join(str(d) for d in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]"

    def to_json(self) -> dict[str, object]:
        """Return the plain form that the manifest holds."""
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}


def nbytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a dense tensor."""
    return math.prod(shape) * ITEM_BYTES[dtype]


def fits(shape: Iterable[int]) -> bool:
    """Whether a shape has no more than :data:`MOST_ELEMENTS`.

    An empty axis counts as one: results may have the other axes without it.
    """
    return math.prod([extent or 1 for extent in shape]) <= MOST_ELEMENTS


def alignments(specs: Sequence[TensorSpec], unaligned: Collection[int]) -> tuple[int, ...]:
    """Return on multiples of how many bytes inputs begin, given the numbers of ``unaligned`` ones.

    These begin on a multiple of the size of their elements.
    """
    return tuple(
        ITEM_BYTES[spec.dtype] if place in unaligned else ALIGNMENT
        for place, spec in enumerate(specs)
    )
