"""Whether a compiled network keeps the promise of its plan."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 0.05
"""How far off a promise may be."""


@dataclass(frozen=True)
class Check:
    """A promise and what a compiled library keeps of it: milliseconds, and bytes of weights."""

    promised_ms: float
    measured_ms: float
    promised_bytes: int
    bytes: int

    @property
    def off(self) -> float:
        """How much longer it takes than promised, as a fraction; negative if it is faster."""
        return self.measured_ms / self.promised_ms - 1

    @property
    def kept(self) -> bool:
        """Whether time and bytes are within 5 % of the promise."""
        return max(abs(self.off), abs(self.bytes / self.promised_bytes - 1)) <= TOLERANCE

    def __str__(self) -> str:
        return (
            f"promised {self.promised_ms:.4g} ms and {self.promised_bytes / 2**20:.3g} MiB,"
            f" measured {self.measured_ms:.4g} ms ({self.off:+.1%}) and"
            f" {self.bytes / 2**20:.3g} MiB: {'kept' if self.kept else 'not kept'}"
        )
