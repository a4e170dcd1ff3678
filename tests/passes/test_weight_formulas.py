"""Weights that a network computes from others are constants before their layer is chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.graph.rewrite import constant

R = relax.op
W = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
GAIN, OFFSET = W[0, :, 0], W[1, :, 0]


def standardised(w, **options):
    operands = (constant(GAIN), constant(OFFSET))
    return R.nn.instance_norm(w, *operands, channel_axis=1, axes=[0, 2], **options)


@pytest.mark.grid
@pytest.mark.parametrize(
    "fold",
    [
        lambda w: R.mean(w, [0, 2], keepdims=True),
        R.mean,
        lambda w: R.variance(w, [-1]),
        lambda w: R.std(w, [1], keepdims=True),
        lambda w: R.sum(w, [0]),
        lambda w: R.nn.softmax(w, 1),
        lambda w: R.nn.softmax(R.multiply(w, relax.const(200.0))),
        lambda w: R.tanh(R.sigmoid(w)),
        lambda w: R.power(R.abs(w), relax.const(1.5)),
        lambda w: R.rsqrt(R.abs(w)),
        standardised,
        lambda w: standardised(w, epsilon=0.1),
    ],
)
def test_values_are_those_of_the_graph(fold):
    before = module(lambda x: R.add(fold(constant(W)), x), (1,))
    after = FoldConstants()(before)
    assert operators(after) == {"add": 1}
    x = np.ones(1, np.float32)
    np.testing.assert_allclose(evaluate(after, x), evaluate(before, x), atol=2e-6)


def test_gain_and_offset_may_be_ignored():
    """TVM's own definition applies them even then."""
    before = module(lambda x: R.add(standardised(constant(W), scale=False, center=False), x), (1,))
    result = evaluate(FoldConstants()(before), np.zeros(1, np.float32))
    np.testing.assert_allclose(result.mean((0, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(result.std((0, 2)), 1, atol=1e-4)


class Standardised(nn.Conv2d):
    """As networks without batch norms have them (Brock et al., 2021; Qiao et al., 2019)."""

    def forward(self, x):
        flat = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(flat, None, None, training=True, momentum=0.0)
        return F.conv2d(x, weight.reshape_as(self.weight), self.bias)


class OfLengthOne(nn.Conv2d):
    def forward(self, x):
        rows = F.normalize(self.weight.flatten(1), dim=1)
        return F.conv2d(x, rows.view_as(self.weight), self.bias)


@pytest.mark.grid
@pytest.mark.parametrize("layer", [Standardised, OfLengthOne])
def test_a_convolution_with_a_computed_weight_is_a_layer(layer):
    conv, x = layer(8, 16, 3), torch.randn(1, 8, 6, 6)
    library = ts.compile(conv, (x,), config=ts.Config(measure=False, cache=False))
    torch.testing.assert_close(library(x), conv(x), atol=1e-4, rtol=1e-4)
    assert [d.layer for d in library.decisions] == ["weight"]
