"""A kernel as it was chosen, for a layer of few blocks and steps: what a block does in a step.

A grid's blocks and a block's steps all do the same, so that counts of a small layer hold for a
large one with the same tile and format. They are those of the PTX that the executor runs, under
its sanitizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from tvm_sparse.base.numerics import INTEGER_SUMS, Numerics, is_float
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.lane_banks import LANES, LaneBanksFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.formats.two_four import KEEP, QUAD, TwoFourFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import stream
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.dense_weights import DenseOperand, DenseRows
from tvm_sparse.ops.cuda.multiply import multiplier
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.ops.cuda.two_four import SparseTensorCore, TwoFourOperand
from tvm_sparse.schedules import cuda
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse_emulator.report import Launch

STEPS = 8
"""Steps of a tile, in the small layer."""

COUNTS = ("shared_passes", "bank_conflicts", "barriers", "waits", "load_bytes", "instructions")


def counts(
    format: Any, tile: ThreadBlockTile | None, rows: int, dtype: str, emulator: Emulator
) -> dict[str, float]:
    """Return what a block does in a step: of a tile or, without one, of a stream's whole row.

    Barriers and waits are those of a warp.

    Raises
    ------
    ArithmeticError
        The sanitizer finds something.
    """
    rng = np.random.default_rng(0)
    small = _small(format, tile)
    count = rows if tile is None else min(rows, tile.rows)
    numerics = Numerics.uniform(dtype, dtype if is_float(dtype) else INTEGER_SUMS)
    c = Contraction((count,), small.cols, small.rows, numerics=numerics)
    weight = _weight(small, rng).astype(dtype)
    func = _scheduled(_built(c, small, tile), emulator.target)
    x = rng.integers(-3, 4, c.input_shape).astype(dtype)
    operands = [x, *small.encode(weight).values()]
    blank = np.zeros(c.output_shape, c.out_dtype)
    _, report = emulator.run(tvm.IRModule({"main": func}), operands, [blank])
    if report.findings:
        raise ArithmeticError(str(report.findings[0]))
    # Partial sums are added by a second kernel.
    return _each(report.launches[0], STEPS if tile else 1)


def _each(launch: Launch, steps: int) -> dict[str, float]:
    warps = math.ceil(math.prod(launch.block) / LANES)
    of_a_warp = {"barriers": warps, "waits": warps}
    return {
        name: round(getattr(launch, name) / launch.blocks / steps / of_a_warp.get(name, 1), 2)
        for name in COUNTS
    }


def _small(format: Any, tile: ThreadBlockTile | None) -> Any:
    """Return the format of a small layer: two blocks of rows, few steps."""
    if tile is None:
        return replace(format, rows=2 * LANES)
    rows, columns = 2 * tile.features, STEPS * tile.columns * tile.parts
    if isinstance(format, BlockFormat):
        slots = columns // format.block_cols
        buckets = Buckets((Bucket(2, slots),))
        kept = 2 * slots if format.kept else 0
        return replace(format, rows=rows, cols=2 * columns, buckets=buckets, kept=kept)
    return replace(format, rows=rows, cols=columns)


def _weight(format: Any, rng: np.random.Generator) -> np.ndarray:
    """Return small integers that fill the format."""
    size = (format.rows, format.cols)
    values = rng.integers(1, 5, size).astype(np.float32)
    if isinstance(format, BlockFormat):
        across = format.cols // format.block_cols
        slots = format.buckets.parts[0].slots
        kept = rng.random((format.down, across)).argsort(1) < slots
        tall = np.repeat(np.repeat(kept, format.block_rows, 0), format.block_cols, 1)
        return values * tall
    if isinstance(format, DenseFormat):
        return values
    bank, keep = (QUAD, KEEP) if isinstance(format, TwoFourFormat) else (format.bank, format.keep)
    order = rng.random((format.rows, format.cols // bank, bank)).argsort(2).argsort(2)
    kept = np.zeros(size, bool)
    kept[:, : format.cols // bank * bank] = (order < keep).reshape(format.rows, -1)
    return values * kept


def _built(c: Contraction, format: Any, tile: ThreadBlockTile | None) -> tirx.PrimFunc:
    """Return the operator, not scheduled."""
    warps = stream.Warps(8, 2)
    if isinstance(format, LaneBanksFormat):
        return stream.stream_balanced(c, format, warps)
    if tile is None:
        return stream.stream_dense(c, format, warps)
    makers: dict[type, Callable[[Any, ThreadBlockTile], Any]] = {
        DenseFormat: DenseOperand if c.numerics.floating else DenseRows,
        TileBanksFormat: BalancedOperand,
        BlockFormat: BlockOperand,
        TwoFourFormat: TwoFourOperand,
    }
    weights = makers[type(format)](format, tile)
    packed = isinstance(format, TwoFourFormat)
    return tiled(c, weights, tile, SparseTensorCore() if packed else multiplier(c.numerics))


def _scheduled(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    found = first_schedule(func, target, cuda.RULES)
    assert found is not None
    return found[0].mod["main"].with_attr("global_symbol", "main")
