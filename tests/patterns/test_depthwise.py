"""Pruned depthwise taps: projection with and without balance, detection of group sizes."""

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.depthwise import DepthwiseTaps


def scores(channels, taps=9):
    return np.random.default_rng(channels).random((channels, taps)) + 0.1


def test_every_group_keeps_as_many():
    mask = DepthwiseTaps(32).project(scores(80), 0.75)
    assert [mask[s : s + 32].sum() for s in (0, 32, 64)] == [72, 72, 36]
    first = scores(80)[:32]
    assert first[mask[:32]].min() > first[~mask[:32]].max()


def test_one_threshold_for_the_layer():
    mask = DepthwiseTaps(32, balanced=False).project(scores(80), 0.75)
    assert mask.sum() == 180
    assert scores(80)[mask].min() > scores(80)[~mask].max()


def test_keep_stands_for_a_sparsity():
    mask = DepthwiseTaps(32, keep=63).project(scores(64))
    assert [mask[:32].sum(), mask[32:].sum()] == [63, 63]
    for pattern in (DepthwiseTaps(32), DepthwiseTaps(2, keep=19)):
        with pytest.raises(InputError, match="no sparsity"):
            pattern.project(scores(64))


@pytest.mark.parametrize("arguments", [{"group": 0}, {"keep": -1}])
def test_wrong_parameters_are_refused(arguments):
    with pytest.raises(InputError, match="depthwise taps"):
        DepthwiseTaps(**arguments)


@pytest.mark.parametrize(
    ("channels", "group", "keep"), [(960, 32, 63), (576, 16, 30), (500, 32, 9)]
)
def test_balanced_groups_are_found(channels, group, keep):
    weight = scores(channels)
    fit = DepthwiseTaps.detect(weight * DepthwiseTaps(group, keep=keep).project(weight))
    assert fit.pattern == DepthwiseTaps(group, keep=keep)
    assert fit.evidence.exact
    assert fit.evidence.chance < 1e-9


@pytest.mark.parametrize("channels", [1, 3, 96, 576])
def test_groups_that_differ_are_not_claimed(channels):
    weight = scores(channels)
    mask = DepthwiseTaps(balanced=False).project(weight, 0.78)
    fit = DepthwiseTaps.detect(weight * mask)
    assert fit.pattern == DepthwiseTaps(balanced=False)
    assert fit.evidence.chance == 1
    assert fit.evidence.padding == pytest.approx(1 - mask.sum() / (fit.cost.flops / 2))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_or_nothing_is_not_pruned_taps(value):
    assert DepthwiseTaps.detect(np.full((32, 9), value)) is None


def test_descriptions():
    assert DepthwiseTaps().describe() == (
        "depthwise taps, equally many kept in each group of 32 channels"
    )
    assert "63 kept" in DepthwiseTaps(keep=63).describe()
    assert DepthwiseTaps(balanced=False).describe() == "depthwise taps, one threshold a layer"
