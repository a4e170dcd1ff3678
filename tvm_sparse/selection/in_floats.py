"""What is quantized and multiplies no bytes on a target: which, why, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

NAMED = 3
"""Names in a phrase."""


class Kind(Enum):
    """What multiplies no bytes: what it is, why it does not, and what to do besides."""

    GROUPS = (
        "convolutions in groups",
        "this target multiplies no bytes in groups",
        "compile for a CPU",
    )
    PRODUCTS = (
        "products of two activations",
        "bytes of two activations are multiplied where leading extents are equal and sums are of "
        "16384 bytes at most",
        "give them such extents",
    )
    SHORT_PRODUCTS = (
        "products of two activations",
        "those of floats are modelled as fast, since bytes are added up or turned before",
        "quantize them so that the byte zero means zero",
    )
    ATTENTION = (
        "products in attention",
        "attention of halves is one kernel, which multiplies these",
        "quantize what the softmax gives, too",
    )
    OPEN_PRODUCTS = (
        "products of two activations",
        "bytes of two activations are multiplied where all extents are known, leading ones are "
        "equal and sums are of 16384 bytes at most",
        "give them such extents",
    )

    def __init__(self, plural: str, reason: str, otherwise: str) -> None:
        self.plural, self.reason, self.otherwise = plural, reason, otherwise


class InFloats(dict[Kind, "Counter[str]"]):
    """Names of what multiplies no bytes by its kind, and how often each is computed.

    Layers have their names, products of two activations their extents.
    """

    def note(self, kind: Kind, name: str) -> None:
        """Record one more."""
        self.setdefault(kind, Counter())[name] += 1

    def note_product(self, kind: Kind, operands: Sequence[Sequence[Any]]) -> None:
        """Record one more product of activations with these extents."""
        self.note(kind, " by ".join(map(_extents, operands)))

    def phrases(self) -> Iterator[str]:
        """Yield a phrase for each kind."""
        for kind, counts in self.items():
            names = [f"{name} ({n} times)" if n > 1 else name for name, n in counts.items()]
            named = ", ".join(names[:NAMED])
            named += f" and {more} more" if (more := len(names) - NAMED) > 0 else ""
            yield (
                f"{kind.plural} multiply no bytes, though quantized: {named}; {kind.reason}: "
                f"leave them out of quantization, which is no slower, or {kind.otherwise}"
            )


def _extents(shape: Sequence[Any]) -> str:
    return "x".join(str(extent) if isinstance(extent, int) else "?" for extent in shape)
