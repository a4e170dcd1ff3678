"""A third party's numerics: weights in eight bits with an exponent, widened in registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tvm import tirx

from tests.kernels import host, run
from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.machine.engine.floats import FloatEngine
from tvm_sparse.machine.engine.registry import ENGINES
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates

FP8 = "float8_e4m3fn"
BIAS, FRACTION = 7, 3


class Fp8Engine(FloatEngine):
    """Multiply-adds of floats; a weight's bits become those of the same float, times a power."""

    @property
    def held(self):
        return "uint8"

    def weights(self, stored):
        lanes = int(stored.ty.dtype.lanes)

        def every(value, dtype="uint32"):
            return tirx.Broadcast(tirx.const(value, dtype), lanes)

        bits = tirx.Cast(f"uint32x{lanes}", stored)
        sign = tirx.shift_left(tirx.bitwise_and(bits, every(0x80)), every(24))
        rest = tirx.shift_left(tirx.bitwise_and(bits, every(0x7F)), every(23 - FRACTION))
        value = tirx.reinterpret(f"float32x{lanes}", tirx.bitwise_or(sign, rest))
        return value * every(2.0 ** (127 - BIAS), "float32")


@pytest.fixture
def eight_bits(monkeypatch):
    numerics = FLOAT32.with_weights(FP8)
    monkeypatch.setitem(ENGINES, (numerics, machine_of(host()).name), Fp8Engine)
    return numerics


def test_operators_multiply_weights_of_eight_bits_exactly(eight_bits):
    rng = np.random.default_rng(0)
    c = Contraction((5,), 64, 32, numerics=eight_bits)
    kept = np.kron(rng.random((2, 8)) < 0.5, np.ones((16, 8)))
    matrix = (rng.integers(-8, 9, c.matrix_shape) / 4 * kept).astype(np.float32)
    x = rng.integers(-4, 5, c.input_shape).astype(np.float32)
    found = [*dense_candidates(c, host()), *sparse_candidates(c, Scan(matrix), host())]
    found = [k for k in found if not isinstance(k, str)]
    assert {"dense", "block"} <= {k.name for k in found}
    for candidate in found:
        arrays = candidate.format.encode(matrix)
        assert arrays["values"].dtype == np.uint8
        assert candidate.format.nbytes() < matrix.nbytes / 2
        np.testing.assert_array_equal(candidate.format.decode(arrays), matrix)
        got = run(candidate.func, [x, *arrays.values()], c.output_shape)
        np.testing.assert_array_equal(got, reference(c, x, matrix), candidate.name)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_scans_know_zeros_of_eight_bits(dtype):
    matrix = np.zeros((4, 32), dtype)
    matrix[1, 3], matrix[2, 5] = -0.5, -0.0
    assert Scan(matrix).nonzeros == 1
