"""What GPUs can do, and what the parts of a kernel cost on them: one data file a chip.

``chips/<name>.json`` holds the facts of a data sheet, with their sources. That of a chip that was
measured has costs, too, which ``python -m benchmarks.gpu.fit`` wrote; another chip names the one
whose costs it takes. Costs are clocks, and parts of what the facts promise, so that they scale with
clocks, SMs, bandwidth and tensor cores.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tvm.target import Target

from tvm_sparse.base import json_text
from tvm_sparse.base.targets import capability, gpu_of

PLACE = Path(__file__).parent / "chips"

MARGINS = {True: 1.1, False: 1.3}
"""How many times faster than dense a format must be modelled: on chips that were measured, and on
others. A tie goes to dense."""


@dataclass(frozen=True)
class Costs:
    """What a kernel costs besides its arithmetic.

    ``launch`` are seconds of a kernel that does nothing. ``memory`` is the time of a byte over that
    of a plain copy. ``written`` is the part of a flush's written lines that a kernel waits for.
    ``step`` are clocks of a step of a tile, ``turn`` those of a chunk of a stream, ``first`` those
    of a load that must be there before either. ``block`` are those of a thread block besides, which
    no other one hides. ``chain`` are clocks of a value or bank that waits for the one before it,
    ``bank`` those of a bank, ``lookup`` of a column that a table names.
    ``pass_`` is the clocks of a pass over shared memory. ``issue`` is the clocks of an instruction
    over those of four schedulers. ``feed`` is the bytes a clock that an SM gets from L2, ``line``
    the clocks of a line that scattered loads touch. ``tensor`` and ``scalar`` are the parts of the
    peaks of tensor cores and multiply-adds that are reached.
    ``strip``, ``taps`` and ``pair`` are ``issue`` of the depthwise kernels: dense ones, those of
    kept taps, and those that are fused with a 1x1 convolution. ``begin`` are the clocks of the
    first two besides, ``pair_step`` those that a fused one waits in a step.
    """

    launch: float
    memory: float
    written: float
    step: float
    turn: float
    first: float
    block: float
    chain: float
    bank: float
    lookup: float
    pass_: float
    issue: float
    feed: float
    line: float
    tensor: float
    scalar: float
    strip: float
    taps: float
    begin: float
    pair: float
    pair_step: float


@dataclass(frozen=True)
class Table:
    """Measured times of a dense library in microseconds: ``us[dtype][rows][features][columns]``."""

    rows: list[int]
    features: list[int]
    columns: list[int]
    us: dict[str, list[list[list[float]]]]


@dataclass(frozen=True)
class Windows:
    """How many times as long as modelled convolutions with windows take: cuDNN's, and ours.

    ``measured`` layer by layer, or bounded by networks: on an H200 ResNet-50 of ours takes 1.55
    times as long as its layers are modelled at batch 1, and 1.97 times at batch 32.
    """

    theirs: float = 1.0
    ours: float = 1.5
    measured: bool = False


@dataclass(frozen=True)
class Quads:
    """What cuSPARSELt's 2:4 products take: ``step`` clocks a column, or ``part`` of the peak.

    The peak is that of sparse tensor cores, twice the dense one. Where layers of several sizes
    were ``measured``, these are fitted to them; else to one of 8192 x 8192 on an H200.
    """

    step: float = 0.0
    part: float = 1.0
    measured: bool = False


@dataclass(frozen=True)
class DenseLibrary:
    """What the dense library of a chip takes, and others.

    Numbers are as in :class:`Costs`, ``parts`` those of peaks by dtype. A chip that was measured
    has a ``table``, too, and its own ``windows`` and ``quads``.
    """

    name: str
    launch: float
    memory: float
    parts: dict[str, float]
    table: Table | None = None
    windows: Windows = Windows()
    quads: Quads = Quads()


@dataclass(frozen=True)
class Chip:
    """What one GPU can do.

    ``bandwidth`` is bytes a second from memory as a copy reaches it. ``peaks`` is one SM's fused
    multiply-adds a clock by dtype, ``shared`` its bytes of shared memory. ``l2`` is the bytes of
    the cache before memory. ``measured`` says whether its costs are its own.
    """

    name: str
    arch: str
    sms: int
    clock: float
    bandwidth: float
    peaks: dict[str, float]
    shared: int
    l2: int
    costs: Costs
    library: DenseLibrary
    measured: bool

    def multiply_adds(self, dtype: str) -> float:
        """Return the multiply-adds a clock that one SM reaches in our kernels."""
        scalar = dtype == "float32"  # tensor cores would round it
        return self.peaks[dtype] * (self.costs.scalar if scalar else self.costs.tensor)

    @property
    def margin(self) -> float:
        """How many times faster than dense a format must be modelled."""
        return MARGINS[self.measured]


def chip(target: Target) -> Chip:
    """Return the chip that ``target`` names, or the one that stands for its architecture.

    A chip of another architecture was not measured.
    """
    found = load(gpu_of(target))
    own = capability(str(target.attrs["arch"])) == capability(found.arch)
    return found if own else replace(found, measured=False)


@functools.cache
def load(name: str) -> Chip:
    """Return the chip whose data file is called ``name``."""
    content = read(name)
    giver = content.get("costs_of", name)
    costs = read(giver)["costs"]
    facts = {field.name: content[field.name] for field in fields(Chip) if field.name in content}
    own_times = costs["library"] if giver == name else {}
    table, windows = own_times.get("table"), own_times.get("windows", {})
    numbers = {**costs["library"], "table": Table(**table) if table else None}
    numbers["windows"] = Windows(**windows)
    quads = Quads(**costs["library"]["quads"])
    numbers["quads"] = quads if giver == name else replace(quads, measured=False)
    library = DenseLibrary(**numbers)
    own = {field.name: costs[field.name] for field in fields(Costs)}
    return Chip(**{**facts, "costs": Costs(**own), "library": library, "measured": giver == name})


def read(name: str) -> dict[str, Any]:
    """Return the content of the data file of a chip."""
    content: dict[str, Any] = json_text.parsed((PLACE / f"{name}.json").read_text(encoding="utf-8"))
    return content
