"""Denormal weights become zeros, unless all of a layer is that small."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import module
from tvm_sparse.passes.canonical.flush_denormals import FlushDenormals
from tvm_sparse.passes.graph.rewrite import constant, name_of

R = relax.op
TINY = 1e-40


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
