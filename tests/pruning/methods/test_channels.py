import numpy as np
import pytest
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.methods.channels import (
    channels_of,
    check_norm,
    combine,
    filter_scores,
    keep_channels,
    touched,
)
from tvm_sparse.pruning.structure.channels import ChannelGraph


def test_norms_by_hand():
    a = np.array([[3.0, -4.0], [1.0, 0.0], [-5.0, 0.0]])
    b = np.array([[0.0], [2.0], [12.0]])
    assert filter_scores([a], "l1").tolist() == [7, 1, 5]
    assert filter_scores([a], "l2").tolist() == [5, 1, 5]
    assert filter_scores([a, b], "l1").tolist() == [7, 3, 17]
    assert filter_scores([a, b], "l2").tolist() == [5, 5**0.5, 13]


def test_fpgm_keeps_what_is_far_from_the_others():
    # On a line at 0.5, 1, 2, 10: the sums of distances are 11.5, 10.5, 10.5, 26.5.
    line = np.array([[0.5], [1.0], [2.0], [10.0]])
    assert filter_scores([line], "fpgm").tolist() == [11.5, 10.5, 10.5, 26.5]
    # A filter that is gone scores 0 and is nobody's neighbour.
    gone = np.array([[0.0], [1.0], [2.0], [10.0]])
    assert filter_scores([gone], "fpgm").tolist() == [0, 10, 9, 17]


def test_one_channel_always_stays():
    assert keep_channels(np.array([1.0, 3.0, 2.0]), 0).tolist() == [False, True, False]


def test_masks_of_a_set_of_channels():
    model = nn.Sequential(
        nn.Conv2d(3, 2, 3),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Conv2d(2, 2, 3, groups=2, bias=False),
        nn.Flatten(),
        nn.Linear(2 * 4, 5),
    )
    modules = dict(model.named_modules())
    group = ChannelGraph(model).group_of(ChannelGraph(model).nodes[1])
    channels = channels_of(group, modules)
    assert channels.name == "0, 3"
    assert [f.shape for f in channels.filters()] == [(2, 27), (2, 9)]
    reader = channels.readers()[0]
    assert np.array_equal(reader[1].reshape(5, 4), model[5].weight.detach()[:, 4:])
    masks = channels.masks(np.array([True, False]))
    assert set(masks) == {"0.weight", "3.weight", "0.bias", "1.weight", "1.bias", "5.weight"}
    assert masks["0.weight"].reshape(2, -1).tolist() == [[True] * 27, [False] * 27]
    assert masks["1.bias"].tolist() == [True, False]
    assert masks["5.weight"][0].tolist() == [True] * 4 + [False] * 4
    weights, vectors = touched([channels])
    assert list(weights) == ["0.weight", "3.weight", "5.weight"]
    assert list(vectors) == ["0.bias", "1.weight", "1.bias"]


def test_combine_is_and():
    row, column = np.array([[True, True], [False, False]]), np.array([[True, False]] * 2)
    combined = combine([{"a": row, "b": row}, {"a": column}])
    assert combined["a"].tolist() == [[True, False], [False, False]]
    assert combined["b"].tolist() == row.tolist()


def test_unknown_norm():
    with pytest.raises(InputError, match="l1 or l2 or fpgm"):
        check_norm("l3")
