"""Denormal weights become zeros, unless all of a layer is that small."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import module
from tvm_sparse.passes.canonical.flush_denormals import FlushDenormals, flushed
from tvm_sparse.passes.graph.rewrite import constant, name_of

R = relax.op
TINY = 1e-40


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_only_what_rounding_hides(dtype):
    weight = np.array([[0.5, TINY, -TINY, 0, 2e-38]], dtype)
    assert weight[0, 1] != 0
    kept = flushed(weight)
    assert kept.dtype == weight.dtype
    assert (kept == np.array([[0.5, 0, 0, 0, 2e-38]], dtype)).all()
    assert weight[0, 1] != 0, "the model's own weights are not touched"


@pytest.mark.parametrize(
    "weight",
    [
        np.array([TINY, 1e-20], np.float32),
        np.array([TINY, 0], np.float32),
        np.array([1e-6, 60000], np.float16),
        np.array([0.5, 1e-30, 0], np.float32),
        np.array([0.5, 1e-40], np.float64),
        np.zeros(3, np.float32),
        np.ones((0, 3), np.float32)[:, :0],
    ],
)
def test_others_stay_as_they_are(weight):
    assert flushed(weight) is weight


@pytest.mark.parametrize(
    "body, shape",
    [
        (R.nn.conv2d, (1, 4, 5, 5)),
        (R.matmul, (1, 4)),
        (lambda x, w: R.matmul(w, x), (4, 1)),
    ],
)
def test_the_name_survives(body, shape):
    weight = np.eye(4, dtype=np.float32)
    weight[0, 1] = TINY
    weight = weight.reshape(4, 4, 1, 1) if len(shape) == 4 else weight
    after = FlushDenormals()(module(lambda x: body(x, constant(weight, "layer.weight")), shape))
    found = _constants(after)
    assert [name_of(c) for c in found] == ["layer.weight"]
    assert (found[0].value.numpy() == np.where(weight == 1, 1, 0)).all()


def _constants(mod):
    found = []
    relax.analysis.post_order_visit(
        mod["main"].body,
        lambda e: found.append(e) if hasattr(e, "value") and hasattr(e.value, "numpy") else None,
    )
    return found


def test_a_layer_s_zeros_are_counted():
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 64).eval()
    with torch.no_grad():
        layer.weight[:, 16:] = torch.randn(64, 48) * TINY
    library = ts.compile(layer, (torch.ones(4, 64),), config=ts.Config(measure=False))
    assert [d.sparsity for d in library.decisions] == [0.75]
    x = torch.randn(4, 64)
    torch.testing.assert_close(torch.as_tensor(np.asarray(library(x))), layer(x))
