"""Products by ``wgmma`` whose steps are cut into parts: executed, and when the model cuts them."""

from __future__ import annotations

import dataclasses

import pytest

from tests.cuda import test_wgmma, test_wgmma_banks, test_wgmma_matrix, test_wgmma_two_four
from tests.cuda.hopper import ARCH, HALF, changing, check_exact, instructions
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tvm_sparse.formats.swizzled_banks import SwizzledBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, wgmma_banks
from tvm_sparse.ops.cuda.wgmma_weights import KEPT, MATRIX, TWO_FOUR, banks
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.selection.cuda import bank_options

C = Contraction((33,), 1160, 130, numerics=HALF)


def of_blocks(parts, c=C):
    matrix = test_wgmma.pruned(c, 64)
    return matrix, test_wgmma.operator(c, WgmmaTile(16, 64, 4, KEPT, parts), matrix)


def of_banks(parts):
    matrix = test_wgmma_banks.pruned(C)
    format = SwizzledBanksFormat.of(matrix)
    tile = WgmmaTile(16, 64, 8, banks(format.slots), parts)
    func = scheduled(wgmma_banks(C, format, tile), TileWgmmaRule(), ARCH)
    return matrix, (func, format.encode(typed(matrix, C.dtype)).values())


def of_two_four(parts):
    matrix = test_wgmma_two_four.pruned(C)
    return matrix, test_wgmma_two_four.operator(C, WgmmaTile(16, 64, 4, TWO_FOUR, parts), matrix)


def of_matrix(parts):
    matrix = test_wgmma_matrix.weight(C)
    return matrix, test_wgmma_matrix.operator(C, WgmmaTile(16, 64, 4, MATRIX, parts), matrix)


@needs_nvrtc
@pytest.mark.parametrize("kind", [of_blocks, of_banks, of_two_four, of_matrix])
@pytest.mark.parametrize("parts", [2, 3])
def test_small_integers_are_exact(hopper, kind, parts):
    matrix, kernel = kind(parts)
    assert instructions(kernel[0])
    check_exact(hopper, C, matrix, kernel)


@needs_nvrtc
def test_more_parts_than_steps_leave_zeros(hopper):
    c = dataclasses.replace(C, columns=128)
    matrix, kernel = of_blocks(4, c)
    check_exact(hopper, c, matrix, kernel)


ADDED = r"add\.f32\s+(%f\d+), (%f\d+), (%f\d+);"
"""How the second kernel adds a part: the sum, the sum before, the part. The first has none."""

MUTATIONS = {
    "a lost part": (ADDED, r"mov.f32 \1, \2;"),
    "a part that counts twice": (ADDED, r"fma.rn.f32 \1, \3, 0f40000000, \2;"),
    "a part in another one's place": (r"(ld\.global\S*\s+\{[^}]*\}, \[%rd\d+)\+768\]", r"\1]"),
}


@needs_nvrtc
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("kind", [of_blocks, of_banks, of_two_four, of_matrix])
def test_what_is_wrong_with_a_part_is_noticed(hopper, kind, mutation):
    matrix, kernel = kind(2)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        check_exact(hopper, C, matrix, kernel, changing(*MUTATIONS[mutation]))


@pytest.mark.parametrize(("rows", "parts"), [((64,), 3), ((1024,), 1)])
def test_few_blocks_are_cut(rows, parts):
    c = Contraction(rows, 4096, 4096, numerics=HALF)
    scan = Scan(test_wgmma_banks.kept(c.matrix_shape, 8).astype("f4"))
    (found,) = bank_options.balanced(c, scan, target(ARCH))
    assert found.build.args[-1].parts == parts
