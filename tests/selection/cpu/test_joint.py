"""When compressed banks are offered, with which entries: empty, uneven and cut banks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, integers, keep_of_bank
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.joint import joint_candidates


def offered(matrix, rows=9, cpu="skylake-avx512"):
    contraction = Contraction((rows,), matrix.shape[1], len(matrix))
    return list(joint_candidates(contraction, Scan(matrix), host(cpu)))


def test_empty_banks_are_skipped():
    matrix = np.zeros((32, 64), np.float32)
    matrix[:16, 2:5] = 1
    matrix[16:, 48] = 1
    (candidate,) = offered(matrix, cpu="haswell")
    assert candidate.name == "joint"
    assert candidate.work == candidate.format.entries * candidate.format.keep / (2 * 64)
    assert candidate.work <= 2 / 8 * 3 / 16


def test_banks_of_a_joint_mask_are_one_entry_each():
    rng = np.random.default_rng(0)
    blocks = (rng.random((8, 16)) < 0.5).repeat(16, 0).repeat(16, 1)
    (candidate,) = offered(keep_of_bank(rng, (128, 256), 4) * blocks, rows=128)
    format = candidate.format
    assert (format.bank, format.keep, format.entries) == (16, 4, blocks.sum() // 256)


@pytest.mark.parametrize("rows", [1, 4, 128])
def test_unstructured_zeros_are_not_padded_to_the_fullest_bank(rows):
    matrix = integers(np.random.default_rng(0), (256, 512), 0.9) + np.float32(0)
    matrix[matrix != 0] += np.float32(1e-3)
    (candidate,) = offered(matrix, rows)
    assert candidate.format.keep < 5
    assert candidate.work < 0.27  # 8 or 9 of 16, 12 or 13 of 32 if all banks were equally full
    assert candidate.cost < 0.6


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell"])
def test_equally_full_banks_are_a_reason(cpu):
    (reason,) = offered(np.eye(16, 16, dtype=np.float32).repeat(2, 1), cpu=cpu)
    assert reason == "joint: 100% of the banks hold a nonzero, about as many each"


@pytest.mark.parametrize(("rows", "columns"), [(1, 24), (3, 100), (2, 40)])
def test_hardly_any_rows_need_no_whole_banks(rows, columns):
    rng = np.random.default_rng(0)
    matrix = integers(rng, (40, columns), 0.9) * rng.random((40, columns), np.float32)
    (candidate,) = offered(matrix, rows)
    arrays = candidate.format.encode(matrix)
    assert (candidate.format.decode(arrays) == matrix).all()
    assert candidate.work == pytest.approx(
        candidate.format.entries * candidate.format.keep / (3 * columns)
    )


@pytest.mark.parametrize(("side", "bank"), [(512, 32), (2048, 64)])
def test_weights_from_memory_take_the_banks_that_store_least(side, bank):
    rng = np.random.default_rng(0)
    matrix = rng.random((side, side), np.float32) * (rng.random((side, side)) < 0.25)
    (candidate,) = offered(matrix, rows=1)
    assert candidate.format.bank == bank


@pytest.mark.parametrize("side", [256, 2048])
def test_a_single_row_needs_no_table_where_all_banks_are_equally_full(side):
    matrix = keep_of_bank(np.random.default_rng(0), (side, side), 4)
    (reason,) = offered(matrix, rows=1)
    assert "about as many each" in reason


def test_taps_with_fewer_columns_than_a_bank_are_a_reason():
    (reason,) = offered(np.zeros((16, 12), np.float32), rows=1)
    assert reason == "joint needs 16 columns a tap, found 12"


def test_cut_banks_are_a_reason():
    (reason,) = offered(np.zeros((16, 24), np.float32), rows=16)
    assert reason == "joint needs a multiple of 16 columns a tap, found 24"
