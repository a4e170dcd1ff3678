"""Convolution calls as contractions: plain, strided, depthwise, grouped, of unknown batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tvm import relax, tirx

import tvm_sparse as ts
from tests.kernels import integers
from tests.passes.modules import module
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.passes.graph.convolution import convolution, joined_groups
from tvm_sparse.passes.graph.rewrite import op_name


def contraction(batch, kernel, groups=1, strides=(1, 1), borders=(1, 1)):
    """Return what a convolution of a 9 x 8 image of 12 channels contracts."""
    found = []

    def body(x, w):
        options = {"data_layout": "NHWC", "kernel_layout": "OHWI", "groups": groups}
        return relax.op.nn.conv2d(x, w, strides=strides, padding=borders, **options)

    mod = relax.transform.Normalize()(module(body, (batch, 9, 8, 12), kernel))

    def look(expr):
        if op_name(expr) == "nn.conv2d":
            found.append(convolution(expr, expr.args[0], kernel, borders))

    relax.analysis.post_order_visit(mod["main"].body, look)
    (result,) = found
    return result


def test_plain():
    expected = Contraction((2, 5, 8), 12, 20, (3, 3), (2, 1), (1, 1), (9, 8), borders=(1, 1))
    assert contraction(2, (20, 3, 3, 12), strides=(2, 1)) == expected


def test_depthwise():
    found = contraction(2, (12, 3, 3, 1), groups=12)
    assert found.depthwise
    assert (found.columns, found.features, found.lead) == (12, 12, (2, 9, 8))
    assert found.matrix_shape == (12, 9)


@pytest.mark.parametrize(
    "features, groups, joined",
    [(96, 3, 1), (48, 12, 4), (48, 6, 2), (24, 3, 3), (60, 6, 6), (12, 12, 12), (16, 1, 1)],
)
def test_groups_are_joined_until_vectors_of_features_read_one(features, groups, joined):
    assert joined_groups(features, groups) == joined


def test_a_group_axis():
    found = contraction(2, (96, 3, 3, 4), groups=3)
    assert (found.groups, found.columns, found.features) == (3, 4, 96)
    assert found.matrix_shape == (96, 36)
    assert found.input_shape == (2, 9, 8, 12)
    joined = contraction(2, (48, 3, 3, 2), groups=6)
    assert (joined.groups, joined.columns, joined.matrix_shape) == (3, 4, (48, 36))
    assert joined.input_shape == (2, 9, 8, 12)


def test_an_unknown_batch_is_a_fresh_symbol():
    batch = tirx.Var("n", "int64")
    (first, *rest) = contraction(batch, (20, 3, 3, 12)).lead
    assert not isinstance(first, int)
    assert not first.same_as(batch)
    assert rest == [9, 8]


LAYERS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def exact(layer, shape, sparsity=0.0, force=None):
    """Compile ``layer`` with small integers as weights; its results are exact."""
    rng = np.random.default_rng(0)
    layer.requires_grad_(False)
    layer.weight[:] = torch.from_numpy(integers(rng, tuple(layer.weight.shape), sparsity))
    if force == "joint":  # wants empty banks
        layer.weight[:, :, :1] = 0
    layer.bias[:] = torch.from_numpy(integers(rng, tuple(layer.bias.shape)))
    x = torch.from_numpy(integers(rng, shape))
    config = ts.Config(measure=False, tuned=False, force={"*": force} if force else {})
    library = ts.compile(layer, (x,), config=config)
    torch.testing.assert_close(library(x), layer(x), rtol=0, atol=0)
    return library


@pytest.mark.grid
@pytest.mark.parametrize("force", ["dense", "balanced", "block", "joint", "unstructured"])
@pytest.mark.parametrize("rank", LAYERS)
def test_every_format_in_every_dimension(rank, force):
    layer = LAYERS[rank](32, 48, 3, stride=2, padding=1)
    library = exact(layer, (2, 32, 6, 7, 5)[: rank + 2], 0.8, force)
    assert [d.chosen for d in library.decisions] == [force]
    assert any(k.layer for k in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize("force", ["dense", "balanced", "block", "joint"])
@pytest.mark.parametrize("channels, features, groups", [(64, 32, 2), (48, 24, 6), (60, 90, 3)])
def test_every_format_of_groups(channels, features, groups, force):
    if force == "joint" and channels == 60:
        pytest.skip("banks are whole")
    layer = nn.Conv2d(channels, features, 3, padding=1, groups=groups)
    (decision,) = exact(layer, (1, channels, 5, 7), 0.5, force).decisions
    assert decision.chosen == force
    assert decision.shape == tuple(layer.weight.shape)
    assert decision.sparsity == pytest.approx(float((layer.weight == 0).float().mean()))


@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_any_shape(data):
    rank = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 4))
    each, more = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20))
    drawn = [data.draw(st.integers(1, 3)) for _ in range(4)]
    layer = LAYERS[rank](
        groups * each,
        groups * more,
        drawn[0],
        stride=drawn[1],
        padding=drawn[2] - 1,
        dilation=drawn[3],
        groups=groups,
    )
    extents = [data.draw(st.integers(7, 9)) for _ in range(rank)]
    exact(layer, (data.draw(st.integers(1, 2)), groups * each, *extents), 0.3)


@pytest.mark.grid
@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("rank", LAYERS)
def test_depthwise_reads_each_channel_as_often_as_features_want(rank, times):
    layer = LAYERS[rank](16, 16 * times, 3, padding=1, groups=16)
    (decision,) = exact(layer, (2, 16, 6, 7, 5)[: rank + 2]).decisions
    assert decision.operator == "depthwise"


@pytest.mark.grid
@pytest.mark.parametrize("channels", [3, 20])
def test_channels_are_repeated_behind_the_borders_by_shuffles(channels):
    found = exact(
        nn.Conv2d(channels, 6 * channels, 3, padding=1, groups=channels), (2, channels, 9, 8)
    )
    names = [kernel.function for kernel in found.kernels]
    assert not any("repeat" in name for name in names)
    assert "take" in names
