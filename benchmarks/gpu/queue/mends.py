"""Step 4: each change of a kernel, on and off, on the layers that it is for.

A mend is a field of ``tvm_sparse.ops.cuda.mends.Mends``, which that module's ``using`` sets while a
kernel is chosen, scheduled and built. Whoever lands one names its field in :data:`MENDS`. Until
then its pieces say "not built yet".
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu import prepare
from benchmarks.gpu.cases import SIZE, Case
from benchmarks.gpu.layers import Layer
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.timing import Timer
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction

SWITCHES = "tvm_sparse.ops.cuda.mends"
NOT_BUILT = "not built yet"

BATCHES = (1, 8, 16, 32, 64)


@dataclass(frozen=True)
class Weight:
    """A pruned weight: ``(features, columns)``, dtype, pattern and share of zeros."""

    layer: str
    shape: tuple[int, int]
    dtype: str
    pattern: str
    sparsity: float

    def case(self, rows: int) -> Case:
        """Return its product with so many rows of activations."""
        numerics = Numerics.uniform(self.dtype)
        c = Contraction((rows,), self.shape[1], self.shape[0], numerics=numerics)
        return Case(self.layer, c, self.pattern, self.sparsity)


SQUARE = Weight(f"{SIZE}x{SIZE}", (SIZE, SIZE), "float16", "balanced", 0.75)
FC6 = Weight("VGG fc6", (4096, 25088), "float32", "balanced", 0.92)
WIDE = Weight("16384x8196", (16384, 8196), "float16", "balanced", 0.75)
GATES = Weight("LSTM-PTB gates", (6000, 1500), "float16", "balanced", 0.8)
GATES_32 = replace(GATES, dtype="float32")
BLOCKS = replace(SQUARE, pattern="block 64x64", sparsity=0.9)
DENSE = replace(SQUARE, pattern="none", sparsity=0.0)
TINY = Weight("64x80", (64, 80), "float16", "balanced", 0.75)
LONG = Weight("32x2048", (32, 2048), "float16", "balanced", 0.75)
TALL = Weight("4224x64", (4224, 64), "float16", "balanced", 0.75)
UNEVEN = Weight("128x512", (128, 512), "float16", "block 32x32", 0.75)
TWO_FOUR = replace(SQUARE, pattern="2:4", sparsity=0.5)
TINY_TWO_FOUR = replace(TWO_FOUR, layer="128x256", shape=(128, 256))
TINY_BLOCKS = Weight("128x256", (128, 256), "float16", "block 64x64", 0.75)


@dataclass(frozen=True)
class Mend:
    """A change of kernels: ``values`` of its switch by their names, and what it is tried on."""

    name: str
    values: Mapping[str, Any]
    weights: tuple[Weight, ...]
    batches: tuple[int, ...] = BATCHES
    switch: str = ""
    small: tuple[Weight, int] = (TINY, 16)
    """Weight and rows that show on a CPU whether it runs."""

    target: str = ""
    """What its kernels are built for, the queue's target if empty."""

    @property
    def missing(self) -> str:
        """Why it cannot be tried; empty where it can."""
        try:
            fields = dataclasses.fields(importlib.import_module(SWITCHES).Mends)
        except ImportError:
            return NOT_BUILT
        return "" if self.switch in {field.name for field in fields} else NOT_BUILT

    def cases(self, plan: Plan) -> list[Case]:
        """Return the layers that it is tried on."""
        if plan.small:
            weight, rows = self.small
            return [weight.case(rows)]
        return [weight.case(rows) for weight in self.weights for rows in self.batches]

    def kernels(self, case: Case) -> dict[str, Switched]:
        """Return the kernel of each value."""
        return {
            name: Switched(case, case.format, self.switch, name, value, self.target)
            for name, value in self.values.items()
        }


@dataclass(frozen=True)
class Switched(Kernel):
    """A kernel that is built while ``switch`` has ``value``, which is called ``label``."""

    switch: str
    label: str
    value: Any
    target: str = ""

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.case.name}: {self.format}, {self.switch} {self.label}"

    def built_for(self, target: str) -> str:
        """Return the kernel's own target, or ``target``."""
        return self.target or target

    def place(self, target: str) -> Path:
        """Return the directory of the built kernel; another value has another one."""
        return prepare.place_of(f"{self.name} {self.case} {self.value} {self.built_for(target)}")

    def chosen(self) -> contextlib.AbstractContextManager[Any]:
        """Return the compiler with the value."""
        module = importlib.import_module(SWITCHES)
        there: contextlib.AbstractContextManager[Any] = module.using(
            dataclasses.replace(module.in_use(), **{self.switch: self.value})
        )
        return there


ON_OFF = {"off": False, "on": True}
ENGINES = {"mma.sync": "mma.sync", "wgmma": "wgmma"}
MANY = (1, 16, 64, 256, 1024, 4096)
HOPPER = "cuda:sm_90a"
PARTS = {str(parts): parts for parts in (1, 2, 4, 8)}

MENDS = (
    Mend("long steps", {"off": 0.0, "on": 0.08}, (GATES, WIDE), (16, 64), "step_padding"),
    Mend("held banks", ON_OFF, (SQUARE, GATES), (16, 32, 64), "held_banks"),
    Mend("lanes apart", ON_OFF, (FC6,), (8, 16, 32, 64), "lanes_apart"),
    Mend("words beside", ON_OFF, (SQUARE, GATES), (1, 8), "words_beside"),
    Mend("split-K", PARTS, (SQUARE, DENSE), (16, 64), "parts", (LONG, 16)),
    Mend("split-K of small layers", PARTS, (GATES,), (16, 64), "parts", (LONG, 16)),
    Mend("clamped loads", ON_OFF, (GATES, GATES_32, SQUARE, FC6), (1, 8), "clamped_loads"),
    Mend("streams in segments of K", ON_OFF, (FC6, WIDE), (8,), "segments", (LONG, 8)),
    Mend("rows of a stream's warp", ON_OFF, (GATES, GATES_32), (1, 8), "wave_rows", (TALL, 8)),
    Mend("true counts of block rows", ON_OFF, (BLOCKS,), (1, 32, 256), "true_counts", (UNEVEN, 16)),
    Mend(
        "blocks by wgmma",
        ENGINES,
        (BLOCKS, replace(BLOCKS, sparsity=0.75)),
        *(MANY, "block_engine", (TINY_BLOCKS, 16), HOPPER),
    ),
    Mend(
        *("2:4 by wgmma", ENGINES, (TWO_FOUR,)),
        *(MANY, "block_engine", (TINY_TWO_FOUR, 16), HOPPER),
    ),
    Mend(
        *("banks by wgmma", ENGINES, (SQUARE, replace(SQUARE, sparsity=0.9))),
        *((16, 32, 64, 128), "block_engine", (TINY, 16), HOPPER),
    ),
)
"""Changes on ``mma.sync`` and multiply-adds; what was weighed and left out stands in
``docs/design/cuda.md``."""


def kernels(mends: Iterable[Mend], plan: Plan) -> list[Kernel]:
    """Return the kernels of all mends that exist."""
    there = [mend for mend in mends if not mend.missing]
    return [k for m in there for case in m.cases(plan) for k in m.kernels(case).values()]


def pieces(mends: Iterable[Mend], part: str, plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each mend and layer; a single one, skipped, for what does not exist."""
    key = plan.key(*prepare.KERNEL_CODE)
    for mend in mends:
        if mend.missing:
            yield Piece(mend.name, part, key, lambda: (), skip=mend.missing)
            continue
        for case in mend.cases(plan):
            variants = mend.kernels(case)
            run = partial(_measured, mend, case, variants, plan)
            yield Piece(f"{mend.name}: {case.name}", part, key, run, tuple(variants.values()))


def _measured(mend: Mend, case: Case, variants: Mapping[str, Switched], plan: Plan) -> list[Row]:
    """Return the row of a layer: the time with each value of the switch, outputs verified."""
    layer = Layer(case)
    found = {name: layer.ours(kernel, plan.target) for name, kernel in variants.items()}
    programs = {f"ours {name}": program for name, (program, _, _) in found.items()}
    return [
        {
            "case": f"{mend.name}: {case.name}",
            "mend": mend.name,
            "rows": case.contraction.lead[0],
            "kernels": {name: record for name, (_, record, _) in found.items()},
            "errors": {name: share for name, (_, _, share) in found.items()},
            **Timer(plan.repeats).row(programs),
        }
    ]


def tells(rows: list[Row]) -> str:
    """Say what each mend gains at best and at worst, over its first value."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        first, *others = (taken["median_us"] for taken in row["times"].values())
        gains.setdefault(row["mend"], []).append(first / min(others))
    return ", ".join(f"{n} {min(g):.2f} to {max(g):.2f}x" for n, g in gains.items())
