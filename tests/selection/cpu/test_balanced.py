"""Which balanced format is offered: rows that share columns, the size of banks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, integers, keep_of_bank
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.balanced import balanced_candidates


def of_32(shape, keep):
    rng = np.random.default_rng(0)
    kept = rng.random((shape[0], shape[1] // 32, 32)).argsort(-1) < keep
    return integers(rng, shape) * kept.reshape(shape)


def offered(contraction, matrix, cpu="skylake-avx512"):
    (candidate,) = balanced_candidates(
        contraction, Scan(matrix + np.float32(1e-3) * (matrix != 0)), host(cpu)
    )
    return candidate


@pytest.mark.parametrize("rows", [1, 4, 128])
def test_zeros_of_32_are_kept_in_banks_of_32(rows):
    candidate = offered(Contraction((rows,), 128, 64), of_32((64, 128), 3))
    assert candidate.format == BalancedFormat(64, 128, 3, bank=32)
    assert candidate.work == pytest.approx(3 / 32)


def test_a_lookup_in_two_registers_is_not_taken_without_need():
    matrix = keep_of_bank(np.random.default_rng(0), (64, 128), 4)
    assert offered(Contraction((128,), 128, 64), matrix).format.bank == 16


def test_other_instruction_sets_take_banks_of_16():
    candidate = offered(Contraction((128,), 128, 64), of_32((64, 128), 3), "haswell")
    assert candidate.format.bank == 16


def test_taps_with_fewer_than_32_columns_take_banks_of_16():
    c = Contraction((1, 5, 5), 24, 32, (3, 3), (1, 1), (1, 1), (7, 7))
    assert offered(c, integers(np.random.default_rng(0), c.matrix_shape, 0.9)).format.bank == 16


def test_rows_that_share_columns_are_found_in_banks_of_32():
    kept = (of_32((16, 128), 3) != 0).reshape(1, 16, 128).repeat(2, 0).reshape(32, 128)
    candidate = offered(
        Contraction((128,), 128, 32), integers(np.random.default_rng(1), kept.shape) * kept
    )
    assert (candidate.format.share, candidate.format.bank) == (2, 32)


def test_fewer_columns_than_a_bank_are_refused():
    scan = Scan(np.ones((16, 8), np.float32))
    (reason,) = balanced_candidates(Contraction((4,), 8, 16), scan, host())
    assert "at least 16 columns" in reason
