"""Block rows with fewer blocks than others: exact; what they lack is not read or multiplied."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

from benchmarks.gpu.cases import MASKS
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tests.cuda.test_tile import RULES
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.mends import Mends, using
from tvm_sparse.ops.cuda.multiply import Scalar, TensorCore
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.cuda.skipped_steps import SkippedSteps
from tvm_sparse.selection.cuda import options

ENGINES = {"float32": Scalar, "float16": TensorCore, "bfloat16": TensorCore}
CASES = {
    "whole": (Contraction((40,), 256, 128), ThreadBlockTile(32, 32, 32)),
    "two blocks a step": (Contraction((40,), 256, 128), ThreadBlockTile(32, 32, 64)),
    "steps end in blocks": (Contraction((40,), 80, 128), ThreadBlockTile(32, 32, 48)),
    "parts": (Contraction((40,), 256, 128), ThreadBlockTile(32, 32, 32, 2)),
    "convolution": (
        Contraction((1, 5, 6), 32, 96, (3, 3), (1, 1), (1, 1), padded=(5, 6), borders=(1, 1)),
        ThreadBlockTile(16, 32, 32),
    ),
}


def uneven(c):
    """All blocks of the first 32 rows, none of the next ones, one, and some."""
    rng = np.random.default_rng(0)
    rows, cols = c.matrix_shape
    kept = rng.random((-(-rows // 32), -(-cols // 32))) < 0.3
    kept[:3] = [[True], [False], [False]]
    kept[2, -1] = True
    return integers(rng, (rows, cols)) * kept.repeat(32, 0).repeat(32, 1)[:rows, :cols]


def run(emulator, c, tile, matrix, x, *, counted):
    format = BlockFormat.of(matrix, Block(32, 32), limit=1)
    format = format.counted(matrix) if counted else format
    engine = ENGINES[c.dtype]
    func = scheduled(tiled(c, BlockOperand(format, tile), tile, engine()), RULES[engine]())
    arrays = [typed(x, c.dtype), *format.encode(typed(matrix, c.dtype)).values()]
    blank = typed(np.full(c.output_shape, np.nan), c.dtype)
    (out,), report = emulator.run(tvm.IRModule({"main": func}), arrays, [blank])
    assert not report.findings, report.findings
    return out.astype(np.float64), report.launches[0]


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_equals_the_reference(case, dtype, emulator):
    c, tile = CASES[case]
    c = dataclasses.replace(c, numerics=Numerics.uniform(dtype))
    matrix, x = uneven(c), integers(np.random.default_rng(1), c.input_shape)
    found, _ = run(emulator, c, tile, matrix, x, counted=True)
    wanted = typed(reference(c, x, matrix), dtype)  # rounded once
    np.testing.assert_array_equal(found, wanted.astype(np.float64))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_a_row_lacks_is_neither_read_nor_multiplied(dtype, emulator):
    c, tile = CASES["whole"]
    c = dataclasses.replace(c, numerics=Numerics.uniform(dtype))
    matrix, x = uneven(c), integers(np.random.default_rng(1), c.input_shape)
    before, after = (run(emulator, c, tile, matrix, x, counted=n)[1] for n in (False, True))
    blocks = np.count_nonzero(Scan(matrix).block_counts(32, 32))
    share = blocks / (4 * 8)
    assert after.multiply_adds == share * before.multiply_adds
    assert after.load_bytes < (share + 0.15) * before.load_bytes


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_a_row_lacks_makes_no_nan_of_infinities(dtype, emulator):
    """All stored weights are positive, so that only what is filled up could be zero."""
    c, tile = CASES["steps end in blocks"]
    c = dataclasses.replace(c, numerics=Numerics.uniform(dtype))
    matrix = (uneven(c) != 0).astype(np.float32)
    matrix[:32] = 1
    matrix[32:] = 0
    x = np.full(c.input_shape, np.inf, np.float32)
    found, _ = run(emulator, c, tile, matrix, x, counted=True)
    assert np.isposinf(found[:, :32]).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_condition_lies_around_a_step(dtype):
    c, tile = CASES["whole"]
    c = dataclasses.replace(c, numerics=Numerics.uniform(dtype))
    format = BlockFormat.of(uneven(c), Block(32, 32), limit=1).counted(uneven(c))
    func = tiled(c, BlockOperand(format, tile), tile, ENGINES[dtype]())
    before = scheduled(func, RULES[ENGINES[dtype]]())
    after = SkippedSteps()(tvm.IRModule({"main": before}))["main"]
    inside = nodes(before.body, tirx.IfThenElse)
    assert inside
    assert not any(nodes(condition.then_case, tirx.For) for condition in inside)
    (condition,) = nodes(after.body, tirx.IfThenElse)
    assert nodes(condition.then_case, tirx.For)


def test_other_pipelines_stay():
    c, tile = CASES["whole"]
    format = BlockFormat.of(uneven(c), Block(32, 32), limit=1)
    func = scheduled(tiled(c, BlockOperand(format, tile), tile, Scalar()), RULES[Scalar]())
    module = tvm.IRModule({"main": func})
    assert tvm_ffi.structural_equal(SkippedSteps()(module), module)


def test_rows_of_different_counts_are_counted():
    matrix = MASKS["block 32x32"](0.75)(np.random.default_rng(0).random((512, 512)))
    c = Contraction((16,), 512, 512)
    (option,) = options.block(c, Scan(matrix.astype(np.float32)), target())
    assert option.format.kept > 0
    assert option.demand.steps < option.demand.longest
    with using(Mends(true_counts=False)):
        (before,) = options.block(c, Scan(matrix.astype(np.float32)), target())
    assert before.format.kept == 0
    assert option.demand.nbytes < before.demand.nbytes
    assert option.work < before.work


def test_rows_of_equal_counts_are_not():
    matrix = np.zeros((128, 256), np.float32)
    matrix[:, :64] = 1
    (option,) = options.block(Contraction((16,), 256, 128), Scan(matrix), target())
    assert option.format.kept == 0
