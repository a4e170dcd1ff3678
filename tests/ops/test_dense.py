"""The dense operator, as the default CPU rule schedules it, against the naive reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, integers, run
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense

CASES = [
    Contraction((1,), 1, 1),
    Contraction((7,), 15, 17),
    Contraction((128,), 33, 64),
    Contraction((197,), 16, 48),
    Contraction((2, 3, 5), 8, 31),
    Contraction((1, 5, 7), 3, 20, (3, 3), (1, 1), (1, 1), (7, 9)),
    Contraction((2, 4, 3), 5, 33, (3, 2), (2, 3), (2, 1), (11, 8)),
    Contraction((1, 56, 56), 16, 16, (1, 1), (1, 1), (1, 1), (56, 56)),
]


@pytest.mark.parametrize("contraction", CASES, ids=str)
def test_exact_on_small_integers(contraction):
    rng = np.random.default_rng(0)
    x, matrix = integers(rng, contraction.input_shape), integers(rng, contraction.matrix_shape)
    format = DenseFormat(*contraction.matrix_shape)
    func = dense(contraction, format, host())
    got = run(func, [x, *format.encode(matrix).values()], contraction.output_shape)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    rng = np.random.default_rng(0)
    contraction = Contraction((5,), 24, 40)
    x, matrix = integers(rng, contraction.input_shape), integers(rng, contraction.matrix_shape)
    format = DenseFormat(*contraction.matrix_shape)
    operands = [x, *format.encode(matrix).values()]
    got = run(dense(contraction, format, host(cpu)), operands, contraction.output_shape, host(cpu))
    assert (got == reference(contraction, x, matrix)).all()


def test_error_is_bounded_on_reals():
    rng = np.random.default_rng(0)
    contraction = Contraction((9,), 300, 50)
    x = rng.standard_normal((9, 300), dtype=np.float32)
    matrix = rng.standard_normal((50, 300), dtype=np.float32)
    format = DenseFormat(50, 300)
    got = run(dense(contraction, format, host()), [x, format.encode(matrix)["values"]], (9, 50))
    exact = x.astype(np.float64) @ matrix.T.astype(np.float64)
    gamma = 300 * np.finfo(np.float32).eps
    assert (np.abs(got - exact) <= gamma * (np.abs(x) @ np.abs(matrix.T))).all()
