"""Norms of sums, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import RNG, assert_same, normal, one_node

SKIPS = [(2, 3, 8), (1, 3, 8), (3, 8)]


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("outputs", ["y", "y - - total"])
@pytest.mark.parametrize(("beta", "bias"), [(False, False), (True, False), (False, True), (1, 1)])
def test_layer_norm_of_a_sum(skip, outputs, beta, bias):
    parts = [normal(8) if beta else None, normal(8) if bias else None]
    assert_same(
        "SkipLayerNormalization",
        [normal(2, 3, 8), normal(*skip), normal(8), *parts],
        outputs,
        epsilon=1e-5,
    )


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("outputs", ["y", "y - - total"])
@pytest.mark.parametrize("bias", [False, True])
def test_rms_norm_of_a_sum(skip, outputs, bias):
    part = normal(8) if bias else None
    inputs = [normal(2, 3, 8), normal(*skip), normal(8), part]
    assert_same("SkipSimplifiedLayerNormalization", inputs, outputs, epsilon=1e-6)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("operator", ["SimplifiedLayerNormalization", "LayerNormalization"])
def test_norms_of_the_default_domain_that_its_versions_lack(operator, axis):
    inputs = [normal(2, 3, 8), normal(*(2, 3, 8)[axis:])]
    assert_same(operator, inputs, domain="", axis=axis, epsilon=1e-5)


@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_statistics_of_training_are_refused(operator):
    inputs = [normal(2, 3, 8), normal(2, 3, 8), normal(8)]
    with pytest.raises(ts.UnsupportedError, match="statistics of a training step"):
        eager(one_node(operator, inputs, "y mean"), *inputs)


@pytest.mark.parametrize("outputs", ["y count", "y count total"])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("places", [None, (2, 5), (1, 5)])
def test_embeddings_are_added_and_normalised(outputs, segments, mask, places):
    def numbers(*shape, below=4):
        return RNG.integers(0, below, shape, np.int32)

    inputs = [
        numbers(2, 5, below=11),
        numbers(2, 5, below=2) if segments else None,
        normal(11, 8),
        normal(7, 8),
        normal(2, 8) if segments else None,
        normal(8),
        normal(8),
        numbers(2, 5, below=2) if mask else None,
        numbers(*places) if places else None,
    ]
    assert_same("EmbedLayerNormalization", inputs, outputs, epsilon=1e-6)
