"""Modelled cost of a stored matrix: bytes streamed and instructions issued, padding included."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_NS = 32.0
"""One core streams weights from memory at about this rate."""
FMAS_PER_NS = 128.0
"""Multiply-adds of one AVX-512 core."""
BATCH = 16
"""Columns of activations the model assumes: where loads and arithmetic weigh about the same."""


@dataclass(frozen=True)
class Cost:
    """What storing and multiplying a matrix once would take.

    ``nbytes`` are the stored values and indices; ``flops`` those of one column of activations;
    ``relative`` the modelled time, 1.0 being the dense matrix.
    """

    nbytes: int
    flops: int
    relative: float


UNKNOWN = Cost(0, 0, float("inf"))
"""Cost of a fit whose family gives none: it ranks last."""


def modelled(
    cells: int, values: float, index_bits: float, itemsize: int, lookups: float = 0.0
) -> Cost:
    """Return the cost of a matrix of ``cells`` weights.

    Parameters
    ----------
    cells
        Weights of the dense matrix.
    values
        Stored values, explicit zeros included.
    index_bits
        Bits of all stored indices.
    itemsize
        Bytes of a value.
    lookups
        Activations fetched for each stored value besides the multiply-add itself: 0 where a
        kernel walks dense rows, 1/R where R rows share a column, 1/2 for an in-register lookup in
        a bank, 1 for a load of any column.
    """
    nbytes = values * itemsize + index_bits / 8
    time = nbytes / BYTES_PER_NS + values * BATCH * (1 + lookups) / FMAS_PER_NS
    dense = cells * (itemsize / BYTES_PER_NS + BATCH / FMAS_PER_NS)
    return Cost(round(nbytes), round(2 * values), time / dense if cells else 0.0)


def index_bits(choices: int) -> int:
    """Return the bits of an index that tells ``choices`` positions apart, at least 1."""
    return max(1, (choices - 1).bit_length())
