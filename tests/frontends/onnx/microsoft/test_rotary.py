"""Rotary embeddings, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import RNG, assert_same, normal, one_node


@pytest.mark.parametrize("places", [np.array([3], np.int64), RNG.integers(0, 9, (2, 4))])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 4, 24), (2, 3, 4, 8)])
@pytest.mark.parametrize("part", [8, 4])
def test_pairs_are_turned(places, interleaved, shape, part):
    inputs = [normal(*shape), places, normal(9, part // 2), normal(9, part // 2)]
    options = {} if part == 8 else {"num_heads": 3, "rotary_embedding_dim": part}
    assert_same("RotaryEmbedding", inputs, interleaved=interleaved, **options)


@pytest.mark.parametrize("option", [{"scale": 2.0}, {"is_packed_batching": 1}])
def test_what_is_refused(option):
    inputs = [normal(2, 4, 24), np.array([3], np.int64), normal(9, 4), normal(9, 4)]
    with pytest.raises(ts.UnsupportedError, match="packs its batch or scales its angles"):
        eager(one_node("RotaryEmbedding", inputs, **option), *inputs)
