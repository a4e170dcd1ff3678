"""Activations of onnxruntime's domain, against onnxruntime and by their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import assert_same, normal, one_node


@pytest.mark.parametrize("shape", [(5,), (2, 3, 8), (0, 4)])
@pytest.mark.parametrize("operator", ["Gelu", "FastGelu", "QuickGelu"])
def test_of_one_tensor(operator, shape):
    assert_same(operator, [normal(*shape) * 4])


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu"])
def test_with_a_bias(operator):
    assert_same(operator, [normal(2, 3, 8), normal(8)])


def test_a_factor_of_its_own():
    assert_same("QuickGelu", [normal(2, 8)], alpha=0.7)


def test_two_that_only_gpus_have():
    x, bias, skip = normal(2, 3, 8), normal(8), normal(2, 3, 8)
    (y,) = eager(one_node("BiasAdd", [x, bias, skip]), x, bias, skip)
    np.testing.assert_allclose(y, x + bias + skip, rtol=1e-6)
    (y,) = eager(one_node("BiasSplitGelu", [x, bias]), x, bias)
    value, gate = torch.from_numpy(x + bias).chunk(2, -1)
    np.testing.assert_allclose(y, value * F.gelu(gate), rtol=1e-6)
