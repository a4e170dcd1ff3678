"""What the executor of PTX did and found."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """An error in a kernel, seen ``times`` times at one instruction; the first is described.

    ``kind`` is ``out of bounds``, ``misaligned``, ``uninitialised``, ``race``, ``unfinished copy``,
    ``barrier divergence``, ``warp divergence``, ``metadata``, ``trap``, ``open group``,
    ``open register``, ``register fence``, ``proxy fence``, ``mbarrier``, ``byte count`` or
    ``deadlock`` (the README says when); ``line`` counts the PTX's lines from 1.
    """

    kind: str
    kernel: str
    instruction: str
    line: int
    thread: Triple
    block: Triple
    buffer: str
    detail: str
    times: int

    def __str__(self) -> str:
        place = f"{self.kernel}, line {self.line}: {self.instruction}"
        who = f"thread {self.thread} of block {self.block}"
        rest = "; ".join(text for text in (self.buffer, self.detail) if text)
        return f"{self.kind} in {place} ({who}; {rest}; {self.times} times)"


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, counted.

    Parameters
    ----------
    kernel, grid, block, shared
        What was launched; ``shared`` is in bytes, static and dynamic.
    warps, lanes
        Instructions by pipe: of warps, and of the lanes that were active.
    load_bytes, load_sectors, store_bytes, store_sectors
        Global memory: bytes that lanes asked for, sectors of 32 bytes that warps touched.
    copy_bytes
        Those of ``load_bytes`` that ``cp.async`` copies.
    shared_bytes, shared_passes, shared_least
        Shared memory: bytes, passes over its banks, and passes had there been no conflict.
    barriers, waits, divergent
        Warps that waited at a barrier, waited for copies, and branches at which lanes parted.
    multiply_adds
        Of fp32 and of tensor cores; a sparse tensor core counts zeros that it skips.
    blocks
        Thread blocks that were executed: fewer than the grid's where it was sampled.
    """

    kernel: str
    grid: Triple
    block: Triple
    shared: int
    warps: dict[str, int] = field(repr=False)
    lanes: dict[str, int] = field(repr=False)
    load_bytes: int
    load_sectors: int
    store_bytes: int
    store_sectors: int
    copy_bytes: int
    shared_bytes: int
    shared_passes: int
    shared_least: int
    barriers: int
    waits: int
    divergent: int
    multiply_adds: int
    blocks: int

    @property
    def bank_conflicts(self) -> int:
        """Passes over the banks of shared memory that conflicts add."""
        return self.shared_passes - self.shared_least

    @property
    def instructions(self) -> int:
        """Instructions of lanes that were executed."""
        return sum(self.lanes.values())


@dataclass(frozen=True)
class EmulationReport:
    """All launches in order, and what is wrong about them."""

    launches: tuple[Launch, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def parse(cls, text: str | bytes) -> EmulationReport:
        """Return what the executor wrote as JSON."""
        content = json.loads(text)
        return cls(
            tuple(_made(Launch, one) for one in content["launches"]),
            tuple(_made(Finding, one) for one in content["findings"]),
        )


def _made(record: Any, values: dict[str, Any]) -> Any:
    """Return a record of ``values``; lists become tuples."""
    names = {one.name for one in fields(record)}
    if names != values.keys():
        raise KeyError(f"{record.__name__}: {sorted(names ^ values.keys())}")
    return record(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
