"""Softmax, its logarithm and layer norm for every row length, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import run
from tvm_sparse.ops.tensors.rows import layer_norm, log_softmax, softmax

LENGTHS = [16, 17, 31, 32, 197, 768]


@pytest.mark.parametrize("length", LENGTHS)
def test_softmax(length):
    x = np.random.default_rng(0).standard_normal((2, 3, length)).astype(np.float32) * 5
    x[0, 0, 0] = 80.0
    exact = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    got = run(softmax(x.shape, "float32"), [x], x.shape)
    np.testing.assert_allclose(got, exact, rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize("length", LENGTHS)
def test_log_softmax(length):
    x = np.random.default_rng(0).standard_normal((2, 3, length)).astype(np.float32) * 5
    x[0, 0, 0], x[1, 1, 1] = 80.0, -np.inf
    wide = x.astype(np.float64) - x.max(-1, keepdims=True)
    exact = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    got = run(log_softmax(x.shape, "float32"), [x], x.shape)
    np.testing.assert_allclose(got, exact, rtol=1e-6, atol=2e-6)


def test_log_softmax_of_no_number():
    x = np.zeros((2, 20), np.float32)
    x[0, 19], x[1] = np.nan, -np.inf
    assert np.isnan(run(log_softmax(x.shape, "float32"), [x], x.shape)).all()


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
