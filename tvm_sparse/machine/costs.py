"""What steps of kernels cost on one chip, relative to a multiply-add of the dense operator."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

By: TypeAlias = tuple[tuple[int, float], ...]
"""``(size, cost)`` pairs, smallest size first."""

FROM_MEMORY = 6.7
"""A lookup that takes each lane from memory (measured with SSE; 128 rows, 75 % zeros)."""


@dataclass(frozen=True)
class Costs:
    """Costs in multiply-adds of a whole vector; the cost models of ``selection`` are made of them.

    Parameters
    ----------
    source
        Where the figures come from, for reports.
    lookup
        A lookup in a bank, by its columns.
    entry
        Finding an entry of a joint format, by the columns of its banks.
    table
        What the way through that table adds to each multiply-add of an entry, by columns: beside
        few accumulators a lookup in 32 columns takes less than in the balanced operator's tiles.
    loaded
        A multiply-add with its lookup where only bytes count (few rows of input), by columns.
    block
        Finding an entry of a block format.
    tap
        A tap whose place comes from a table, by lanes.
    winograd
        A product of Winograd's operator, transformations apart.
    rows
        Factor on all that operators with lanes along the batch do.
    halves, bytes
        As ``lookup``, of numbers of 16 and of 8 bits, relative to the dense operator of such
        numbers. Keys are the sums that fill as many registers as the bank. Where a size is missing,
        that of ``lookup`` counts.
    """

    source: str
    lookup: By
    entry: By = ((16, 0.6), (32, 0.75), (64, 1.0))
    table: By = ((16, 0.1), (32, -0.3), (64, 1.5))
    loaded: By = ((16, 1.3), (32, 1.3), (64, 1.6))
    block: float = 4.0
    tap: By = ((8, 1.9), (16, 1.3))
    winograd: float = 1.05
    rows: float = 1.0
    halves: By = ()
    bytes: By = ()

    def of_lookup(self, bank: int, bits: int = 32) -> float:
        """Return the cost of a lookup of numbers of ``bits`` in a bank; from memory if unknown.

        ``bank`` counts numbers of 32 bits.
        """
        own = {16: self.halves, 8: self.bytes}.get(bits, ())
        return (dict(self.lookup) | dict(own)).get(bank, FROM_MEMORY)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Costs:
        """Undo :meth:`to_json`.

        Raises
        ------
        ValueError, TypeError, KeyError
            The record is none of costs, or one of them is no positive finite number.
        """
        values: dict[str, Any] = {"source": str(record["source"])}
        for field in fields(cls)[1:]:
            # Records of the first release lack what may be empty.
            found = record.get(field.name, []) if field.default == () else record[field.name]
            if isinstance(found, list):
                values[field.name] = tuple((int(size), _cost(cost)) for size, cost in found)
            else:
                values[field.name] = _cost(found)
        return cls(**values)


def _cost(value: Any) -> float:
    """Return a cost; tables may take something off, but no step takes more off than all costs."""
    cost = float(value)
    if not -1.0 < cost < 1e3:
        raise ValueError(f"a cost of {cost}")
    return cost
