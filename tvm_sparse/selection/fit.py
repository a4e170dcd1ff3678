"""Fit the costs of this machine: a few small operators, each timed beside the dense one."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.base.numerics import BFLOATS, FLOAT32, INTEGERS, Numerics
from tvm_sparse.errors import InputError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.costs import By, Costs
from tvm_sparse.machine.engine.registry import engine_of, supported
from tvm_sparse.machine.fitted import costs_of, fitted_costs
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.depthwise_taps import depthwise_taps
from tvm_sparse.ops.contractions.joint import joint
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates
from tvm_sparse.selection.covers import Cover
from tvm_sparse.selection.cpu.block import penalty as block_penalty
from tvm_sparse.selection.cpu.compressed_rows import compressed_candidate
from tvm_sparse.selection.fit_bench import SIDE, Bench, Measure, linear, plane, timer, weight
from tvm_sparse.selection.narrow import stored

DENSITY = 1 / 4
"""Fraction of its weights that sparse operators keep."""

NOISE = 0.2
"""Fraction of a lookup's cost by which a second measurement may differ."""

LEAST = 0.05
"""No step is free: a smaller cost is noise."""

LOOKUPS = {"lookup": FLOAT32, "halves": BFLOATS[0], "bytes": INTEGERS[0]}
"""Costs of lookups, and the numbers that are looked up."""

ENTRY_SLOTS = 2
"""Values of an entry of the joint operator that is timed."""


def fit(
    target: Target,
    told: Callable[[str], None] = lambda step: None,
    time: Measure | None = None,
) -> Costs:
    """Return the costs of ``target``, which has to run here; about a minute.

    Parameters
    ----------
    target
        This machine.
    told
        Called with the name of each step before it.
    time
        How candidates are timed: on this machine, unless a test says otherwise.

    Raises
    ------
    InputError
        Times do not repeat: the machine is busy.
    """
    bench = Bench(target, time or timer(target))
    with fitted_costs(allowed=False):
        costs = replace(costs_of(target), source=_source())
        for step, fitted in (
            ("lookups", _lookups),
            ("entries of banks", _entries),
            ("entries of blocks", _blocks),
            ("lanes along the batch", _rows),
            ("taps", _taps),
            ("Winograd", _winograd),
        ):
            told(step)
            costs = fitted(bench, costs)
        told("lookups again")
        _check(costs.lookup, _lookups(bench, costs).lookup)
    return costs


def _check(first: By, second: By) -> None:
    """Refuse costs that the machine does not repeat."""
    for (bank, once), (_, again) in zip(first, second, strict=True):
        if abs(once - again) > NOISE * max(once, again):
            raise InputError(
                "this machine",
                f"a lookup in {bank} columns cost {once:.2f}, then {again:.2f} multiply-adds",
                "a quiet machine, where times repeat",
                "end what else runs, then fit again",
            )


def _source() -> str:
    return f"fitted on {platform.node()}, {datetime.date.today().isoformat()}"


def _banks(target: Target) -> tuple[int, ...]:
    return engine_of(FLOAT32, target).banks


def _balanced_mask(bank: int, keep: int) -> np.ndarray:
    """Return a mask of ``keep`` of ``bank``, at other places in each row."""
    scores = np.random.default_rng(2).random((SIDE, SIDE // bank, bank))
    return (scores.argsort(-1).argsort(-1) < keep).reshape(SIDE, SIDE)


def _lookups(bench: Bench, costs: Costs) -> Costs:
    found: dict[str, Any] = {
        name: _lookup(bench, numerics)
        for name, numerics in LOOKUPS.items()
        if supported(numerics, bench.target)
    }
    return replace(costs, **found)


def _lookup(bench: Bench, numerics: Numerics) -> By:
    """Return what lookups cost; of banks that fill as many registers the largest counts."""
    c, found = replace(linear(), numerics=numerics), {}
    engine = engine_of(numerics, bench.target)
    for bank in engine.banks:
        matrix = weight(_balanced_mask(bank, int(bank * DENSITY))).astype(numerics.weight)
        matrix = matrix.astype(FLOAT32.weight) if numerics.floating else matrix
        format = BalancedFormat.of(matrix, bank=bank, depth=engine.depth)
        func, held = balanced(c, format, bench.target), stored(format, c, bench.target)
        one = Candidate("balanced", held, func, format.keep / format.bank)
        penalty = bench.penalties(c, matrix, [one])["balanced"]
        found[engine.words(bank)] = max(LEAST, float(penalty) - 1)
    return tuple(found.items())


def _entries(bench: Bench, costs: Costs) -> Costs:
    """Fit the cost of an entry; the one of its multiply-adds stays in proportion to lookups."""
    found = []
    for bank in _banks(bench.target):
        matrix = weight(_balanced_mask(bank, ENTRY_SLOTS))
        format = CompressedBanksFormat.of(matrix, keep=ENTRY_SLOTS, bank=bank)
        func = joint(linear(), format, bench.target)
        one = Candidate("joint", format, func, ENTRY_SLOTS / bank)
        step = 1 + costs.of_lookup(bank) + dict(costs.table)[bank]
        penalty = bench.penalties(linear(), matrix, [one])["joint"]
        found.append((bank, max(LEAST, (penalty - step) * ENTRY_SLOTS)))
    return replace(costs, entry=tuple(found))


def _blocks(bench: Bench, costs: Costs) -> Costs:
    """Fit the cost of an entry of one column; rows of many vectors leave no lane waiting."""
    group, c = 4 * LANES, linear()
    kept = np.random.default_rng(3).random((SIDE // group, SIDE)) < DENSITY
    matrix = weight(kept.repeat(group, 0))
    format = CompressedRowsFormat.of(matrix, group=group, run=1, tile_rows=group, tile_cols=SIDE)
    one = Candidate("block", format, block(c, format, bench.target), float(kept.mean()))
    penalty = bench.penalties(c, matrix, [one])["block"]
    cover = Cover(group, 1, float(kept.mean()))
    free = block_penalty(c, cover, replace(costs, block=0.0))
    unit = block_penalty(c, cover, replace(costs, block=1.0)) - free
    return replace(costs, block=max(LEAST, (penalty - free) / unit))


def _rows(bench: Bench, costs: Costs) -> Costs:
    c, cover = linear(), Cover(1, 1, DENSITY)
    matrix = weight(np.random.default_rng(4).random((SIDE, SIDE)) < DENSITY)
    one = compressed_candidate("unstructured", c, Scan(matrix), cover, bench.target)
    penalty = bench.penalties(c, matrix, [one])["unstructured"]
    return replace(costs, rows=max(LEAST, penalty / one.penalty * costs.rows))


def _taps(bench: Bench, costs: Costs) -> Costs:
    side, channels = 28, 64
    c = replace(plane(side, channels), depthwise=True)
    found = []
    for lanes, _ in costs.tap:
        kept = np.zeros(c.matrix_shape, np.bool_)
        kept[:, ::2] = True
        matrix = weight(kept)
        format = CompressedRowsFormat.of(
            matrix, group=lanes, tile_rows=lanes, tile_cols=kept.shape[1]
        )
        func = depthwise_taps(c, format, bench.target)
        one = Candidate("taps", format, func, float(kept.mean()))
        found.append((lanes, max(LEAST, bench.penalties(c, matrix, [one])["taps"])))
    return replace(costs, tap=tuple(found))


def _winograd(bench: Bench, costs: Costs) -> Costs:
    side, channels = 28, 128
    c = plane(side, channels)
    found = [one for one in dense_candidates(c, bench.target) if one.name == "winograd"]
    if not found:
        return costs
    penalty = bench.penalties(c, weight(np.ones(c.matrix_shape, np.bool_)), found)["winograd"]
    rest = found[0].penalty - costs.winograd
    return replace(costs, winograd=max(LEAST, penalty - rest))
