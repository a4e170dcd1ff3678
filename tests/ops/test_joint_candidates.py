"""When compressed banks are offered: empty banks, and whole banks in a tap."""

from __future__ import annotations

import numpy as np

from tests.kernels import host
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.joint_candidates import joint_candidates


def offered(matrix, columns=None):
    contraction = Contraction((9,), columns or matrix.shape[1], len(matrix))
    return list(joint_candidates(contraction, matrix, host()))


def test_empty_banks_are_skipped():
    matrix = np.zeros((32, 64), np.float32)
    matrix[:16, 2:5] = 1
    matrix[16:, 48] = 1
    (candidate,) = offered(matrix)
    assert candidate.name == "joint"
    assert candidate.storage.keep == 3
    assert candidate.work == 2 / 8 * 3 / 16


def test_no_empty_bank_is_a_reason():
    (reason,) = offered(np.eye(16, 16, dtype=np.float32).repeat(2, 1))
    assert reason == "joint: 100% of the banks hold a nonzero"


def test_cut_banks_are_a_reason():
    (reason,) = offered(np.zeros((16, 24), np.float32))
    assert reason == "joint needs a multiple of 16 columns a tap, found 24"
