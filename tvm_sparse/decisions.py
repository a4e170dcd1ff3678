"""What was decided for each layer, and why: the records that reports print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field


@dataclass
class Decision:
    """One layer's record. Times are microseconds of one call on the compiling machine.

    ``chosen`` is ``"dense"`` or the name of a sparse format; ``reason`` says why in a sentence.
    """

    layer: str
    operator: str
    shape: tuple[int, ...]
    sparsity: float
    pattern: str
    chosen: str
    reason: str
    dense_us: float | None = None
    sparse_us: float | None = None
    schedule: str = "default"


@dataclass
class Decisions:
    """All records of one compilation, in network order."""

    records: list[Decision] = field(default_factory=list)

    def add(self, decision: Decision) -> None:
        """Append one record."""
        self.records.append(decision)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.records)

    def to_json(self) -> list[dict[str, object]]:
        """Return plain dictionaries, one a layer."""
        return [asdict(r) for r in self.records]
