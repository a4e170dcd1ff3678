"""2:4 contractions against the naive reference, and their machine code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.cuda.kernels import (
    ARCHS,
    assert_lean,
    executed,
    needs_nvrtc,
    scheduled,
    source,
    target,
    typed,
)
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.ops.cuda.two_four import SparseTensorCore, TwoFourOperand
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.tile_two_four import TileTwoFourRule
from tvm_sparse.selection.cuda import candidates, options

LINEAR = Contraction((2, 50), 200, 70)
STRIDED = Contraction((2, 4, 4), 16, 40, (3, 3), (2, 2), (1, 1), padded=(8, 8), borders=(1, 1))
CASES = {
    "linear": (LINEAR, ThreadBlockTile(32, 64, 64)),
    "one step": (LINEAR, ThreadBlockTile(16, 32, 256)),
    "strided": (STRIDED, ThreadBlockTile(64, 32, 32)),
}


def pruned(rng, shape, keep=2):
    return integers(rng, shape, 0.0) * Balanced(4, keep).project(
        rng.random(shape, dtype=np.float32)
    )


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_reference(case, keep, emulator):
    rng, dtype, (c, tile) = np.random.default_rng(0), "float16", CASES[case]
    c = replace(c, numerics=Numerics.uniform(dtype))
    matrix, x = pruned(rng, c.matrix_shape, keep), integers(rng, c.input_shape)
    format = TwoFourFormat(*c.matrix_shape, lanes=tile.features, step=tile.columns)
    func = tiled(c, TwoFourOperand(format, tile), tile, SparseTensorCore())
    func = scheduled(func, TileTwoFourRule())
    arrays = [typed(x, dtype), *format.encode(typed(matrix, dtype)).values()]
    out = executed(emulator, func, arrays, c.output_shape, dtype)
    assert np.array_equal(out, reference(c, x, matrix))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_machine_code(arch, dtype):
    c = Contraction((256,), 512, 256, numerics=Numerics.uniform(dtype))
    matrix = pruned(np.random.default_rng(0), c.matrix_shape)
    (option,) = options.two_four(c, Scan(matrix), target(arch))
    func = scheduled(option.build(), TileTwoFourRule(), arch)
    assert_lean(func, arch)
    (counts,) = instruction_counts(nvrtc.compile_source(source(func, arch), arch)).values()
    assert counts["HMMA.SP"] > 0
    assert counts["HMMA"] == 0


def names(c, matrix):
    found = candidates.balanced_candidates(c, Scan(matrix), target())
    return [one if isinstance(one, str) else one.name for one in found]


def test_it_is_a_candidate_wherever_the_mask_allows_it():
    c = replace(LINEAR, numerics=Numerics.uniform("float16"))
    matrix = pruned(np.random.default_rng(0), c.matrix_shape)
    assert names(c, matrix) == ["balanced", "two_four"]
    assert names(LINEAR, matrix) == ["balanced"]
    # Banks of 16 columns with 8 values, of which no four columns hold three.
    wide = np.tile(np.float32([1, 0]), (c.features, c.columns // 2))
    assert names(c, wide) == ["balanced", "two_four"]
    matrix[-1, 4:8] = [1, 1, 1, 0]
    assert names(c, matrix)[1] == "two_four: 3 of 4 neighbouring columns are kept, at most 2 fit"
    (reason,) = options.two_four(LINEAR, Scan(matrix), target())
    assert "fp16 and bf16" in reason
