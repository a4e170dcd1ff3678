"""Softmax and layer norm for every row length, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import run
from tvm_sparse.ops.rows import layer_norm, softmax

LENGTHS = [16, 17, 31, 32, 197, 768]


@pytest.mark.parametrize("length", LENGTHS)
def test_softmax(length):
    x = np.random.default_rng(0).standard_normal((2, 3, length)).astype(np.float32) * 5
    x[0, 0, 0] = 80.0
    exact = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    got = run(softmax(x.shape, "float32"), [x], x.shape)
    np.testing.assert_allclose(got, exact, rtol=2e-6, atol=1e-30)


def test_softmax_with_masked_scores():
    x = np.zeros((1, 20), np.float32)
    x[0, 3:] = -np.inf
    got = run(softmax(x.shape, "float32"), [x], x.shape)
    np.testing.assert_allclose(got[0, :3], 1 / 3, rtol=1e-6)
    assert (got[0, 3:] == 0).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_layer_norm(length):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, length)).astype(np.float32) + 100
    gamma, beta = rng.standard_normal((2, length)).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    exact = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5) * gamma + beta
    got = run(layer_norm(x.shape, "float32", 1e-5), [x, gamma, beta], x.shape)
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=2e-4)
