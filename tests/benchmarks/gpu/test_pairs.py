"""Blocks of the benchmark: what is built of them, and the baseline's layout."""

import numpy as np
import pytest
import torch

from benchmarks.gpu import pairs, prepare
from benchmarks.gpu.cases import window
from tests.cuda.kernels import needs_nvrtc, target
from tvm_sparse.ops.contractions.contraction import reference

SMALL = pairs.Pair("small", window((8, 16, 3, 2), 2, "float32"), 24)


def test_names_are_unique_and_weights_do_not_depend_on_the_batch():
    names = [kernel.name for kernel in pairs.kernels()]
    assert len(names) == len(set(names)) == 3 * len(list(pairs.pairs()))
    other = pairs.Pair("small", window((8, 16, 3, 2), 5, "float32"), 24)
    for one, many in zip(SMALL.weights(), other.weights(), strict=True):
        assert np.array_equal(one, many)


def test_two_convolutions_are_the_pair():
    x = np.random.default_rng(0).standard_normal(SMALL.first.input_shape).astype("float32")
    taps, weight = SMALL.weights()
    kernels = [taps.reshape(16, 1, 3, 3), weight.reshape(24, 16, 1, 1)]
    out = pairs.convolved(SMALL, torch.from_numpy(x), [torch.from_numpy(k) for k in kernels])
    between = reference(SMALL.first, x, taps).astype("float32")
    expected = reference(SMALL.second, between, weight)
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-4)


@needs_nvrtc
def test_a_pair_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILT", tmp_path)
    kernel = pairs.PairKernel(SMALL, "fused")
    prepare.build(kernel, "cuda:sm_90", kernel.place("cuda:sm_90"))
    (taps, values), record = prepare.packed(kernel.place("cuda:sm_90"))
    assert record["kernel"] == "depthwise + pointwise"
    assert np.array_equal(taps, SMALL.weights()[0].T)
    assert np.count_nonzero(values) == SMALL.weights()[1].size


@pytest.mark.parametrize(("part", "layer"), [("depthwise", 0), ("pointwise", 1)])
def test_each_layer_alone_is_dense(part, layer):
    kernel = pairs.PairKernel(SMALL, part)
    option = kernel.option(target())
    arrays = kernel.arrays(option.format)
    assert option.name == "dense"
    assert sum(map(np.count_nonzero, arrays)) == SMALL.weights()[layer].size
