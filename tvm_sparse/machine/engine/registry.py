"""Which pairs of numerics and machine have an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tvm.target import Target

from tvm_sparse.base.numerics import (
    BFLOATS,
    BYTE_PRODUCTS,
    FLOAT32,
    FLOAT64,
    FLOAT_SUMS,
    HALVES,
    INTEGERS,
    Numerics,
)
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.floats import FloatEngine
from tvm_sparse.machine.engine.halves import HalfEngine
from tvm_sparse.machine.engine.integers import IntegerEngine, TileIntegers
from tvm_sparse.machine.registry import MACHINES, machine_of

Pair: TypeAlias = tuple[Numerics, str]
"""Numerics, and the name of a machine."""

GPU = "CUDA"
"""Name of the machine of all GPUs."""

OTHERS = {"cuda": GPU}
"""What is no CPU, by the kind of TVM's target. Third parties' are named by their kind."""

ENGINES: dict[Pair, type[Engine]] = {
    (numerics, machine.name): engine
    for engine, pairs in (
        (FloatEngine, (FLOAT64, FLOAT32, *(FLOAT32.with_weights(half) for half in HALVES))),
        (HalfEngine, BFLOATS),
        (IntegerEngine, INTEGERS),
    )
    for numerics in pairs
    for machine in MACHINES
}
"""The engines of CPUs by what tests cover. Third parties add theirs."""

ON_GPU = tuple(
    dict.fromkeys(
        Numerics.uniform(dtype, output)
        for dtype in (FLOAT_SUMS, *HALVES)
        for output in (dtype, FLOAT_SUMS)
    )
)
"""The floats that kernels for GPUs are tested with."""

IN_TILES = (*ON_GPU, *INTEGERS)
"""What tiles on GPUs are tested with; ``ops/cuda/multiply.py`` has their engines."""

IN_PRODUCTS = (*ON_GPU, *BYTE_PRODUCTS)
"""What products of two activations on GPUs are tested with."""

OTHER_NUMERICS: dict[str, tuple[Numerics, ...]] = {GPU: IN_TILES}
"""What kernels multiply on machines that are no CPUs. Third parties' devices add theirs."""


def engine_of(numerics: Numerics, target: Target) -> Engine:
    """Return the engine of a CPU target; refuse numerics that it was not tested with."""
    machine = machine_of(target)
    engine = ENGINES.get((numerics, machine.name))
    if engine is None:
        raise untested(numerics, machine.name)
    return engine(numerics, machine)


def tile_engine_of(numerics: Numerics, target: Target) -> Engine:
    """Return the same for operators whose sums are made in tiles (``Machine.tiles``)."""
    engine = engine_of(numerics, target)
    return engine if numerics.floating else TileIntegers(numerics, engine.machine)


def single_engine_of(numerics: Numerics, target: Target) -> Engine:
    """Return the same for operators that give each lane one column at a time."""
    engine = engine_of(numerics, target)
    if engine.depth > 1:
        raise untested(numerics, f"{engine.machine.name} with one column a lane")
    return engine


def supported_singly(numerics: Numerics, target: Target) -> bool:
    """Whether there are operators for ``numerics`` that give each lane one column at a time."""
    return supported(numerics, target) and engine_of(numerics, target).depth == 1


def supported(numerics: Numerics, target: Target) -> bool:
    """Whether there are operators for ``numerics`` on ``target``."""
    return numerics in known(target)


def known(target: Target) -> list[Numerics]:
    """Return all numerics that ``target`` has operators for."""
    return _of(name_of(target))


def name_of(target: Target) -> str:
    """Return what numerics are paired with: a CPU's machine, the kind of any other target."""
    kind = str(target.kind.name)
    return machine_of(target).name if kind == "llvm" else OTHERS.get(kind, kind)


def require_gpu(numerics: Numerics) -> None:
    """Refuse numerics that kernels of floats for GPUs were not tested with."""
    if numerics not in ON_GPU:
        raise untested(numerics, GPU)


def require_product(numerics: Numerics) -> None:
    """Refuse numerics that products of two activations on GPUs were not tested with."""
    if numerics not in IN_PRODUCTS:
        raise untested(numerics, GPU)


def require_tiles(numerics: Numerics) -> None:
    """Refuse numerics that tiles on GPUs were not tested with."""
    if numerics not in IN_TILES:
        raise untested(numerics, GPU)


def require_products(dtype: str, target: Target) -> None:
    """Refuse a CPU without instructions that multiply ``dtype``: it would be slow there."""
    machine = name_of(target)
    if machine in {m.name for m in MACHINES if any(known == dtype for known, _ in m.dots)}:
        return
    fast = [m.name for m in MACHINES if any(known == dtype for known, _ in m.dots)]
    raise UnsupportedError(
        "precision",
        f"'{dtype}' for {machine}, where it would gain nothing",
        f"a CPU with {' or '.join(fast)}",
        "leave it out; bytes (ts.quantize) are faster on more CPUs",
    )


def untested(numerics: Numerics, machine: str) -> UnsupportedError:
    """Return the error of a pair without an engine."""
    return UnsupportedError(
        "numerics",
        f"{numerics} on {machine}, which has no engine",
        "; ".join(_phrases(_of(machine))) or "a machine with an engine",
        "keep the layer's own operator, or convert its weights",
    )


def _of(machine: str) -> list[Numerics]:
    if machine in OTHER_NUMERICS:
        return list(OTHER_NUMERICS[machine])
    return [numerics for numerics, name in ENGINES if name == machine]


def _phrases(found: Iterable[Numerics]) -> list[str]:
    return [str(numerics) for numerics in found]
