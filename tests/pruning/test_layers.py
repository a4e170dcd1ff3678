import pytest
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import balanced
from tvm_sparse.pruning.layers import (
    CONV,
    DEPTHWISE,
    GROUPED,
    LINEAR,
    RECURRENT,
    PrunableLayer,
    select,
    sort_of,
)
from tvm_sparse.pruning.masks import attach_mask


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.Linear(8, 4)
    )


@pytest.mark.parametrize(
    ("module", "sort"),
    [
        (nn.Linear(4, 2), LINEAR),
        (nn.Conv1d(4, 2, 3), CONV),
        (nn.Conv2d(4, 2, 3), CONV),
        (nn.Conv2d(4, 4, 3, groups=4), DEPTHWISE),
        (nn.Conv2d(4, 8, 3, groups=4), GROUPED),
        (nn.Conv2d(4, 4, 3, groups=2), GROUPED),
        (nn.LSTM(4, 2), RECURRENT),
        (nn.ConvTranspose2d(4, 2, 3), None),
        (nn.BatchNorm2d(4), None),
    ],
)
def test_sort_of(module, sort):
    assert sort_of(module) == sort


def test_select_by_sort_and_glob():
    selection = select(network())
    assert [layer.key for layer in selection] == ["0.weight", "3.weight"]
    assert selection.skipped == {"2": "a depthwise conv; the method prunes linear, conv, recurrent"}
    assert [x.name for x in select(network(), include=["[03]"], ignore=["3"])] == ["0"]
    assert select(network(), ignore=["3"]).skipped["3"] == "in ignore"
    assert select(network(), include=["3"]).skipped["0"] == "not in include"


def test_recurrent_layers_have_several_weights():
    keys = [layer.key for layer in select(nn.Sequential(nn.LSTM(4, 2, num_layers=2)))]
    assert keys == ["0.weight_ih_l0", "0.weight_hh_l0", "0.weight_ih_l1", "0.weight_hh_l1"]


def test_attention_prunes_its_projections_and_computes_with_the_masks():
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    model = nn.ModuleDict({"attention": layer})
    pruner = balanced(model, 0.5, bank=4)
    assert list(pruner.masks) == ["attention.in_proj_weight", "attention.out_proj.weight"]
    assert [r.name for r in pruner.report.layers] == [
        "attention.in_proj_weight",
        "attention.out_proj",
    ]
    x = torch.rand(1, 3, 8)
    masked = layer(x, x, x)[0]
    pruner.squash_mask()
    assert int((layer.in_proj_weight == 0).sum()) == 96
    torch.testing.assert_close(layer(x, x, x)[0], masked)
    other = nn.MultiheadAttention(8, 2, kdim=4, vdim=6)
    assert [x.parameter for x in select(nn.Sequential(other)).layers[:3]] == [
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
    ]


def test_a_misspelt_glob_is_refused_with_the_nearest_name():
    model = nn.ModuleDict({"features": nn.Linear(4, 4)})
    with pytest.raises(InputError, match=r"glob 'faetures': matches no .* did you mean 'features'"):
        select(model, ignore=["faetures"])


def test_nothing_left_is_refused():
    with pytest.raises(InputError, match="no layer to prune"):
        select(nn.Sequential(nn.Linear(2, 2)), ignore=["*"])


def test_a_shared_weight_is_pruned_once():
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    b.weight = a.weight
    assert select(nn.Sequential(a, b)).skipped == {"1": "shares its weight with 0"}


def test_a_weight_that_our_own_mask_computes_is_pruned_further():
    layer = nn.Linear(4, 4)
    attach_mask(layer)
    assert len(select(nn.Sequential(layer)).layers) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_values(dtype):
    layer = nn.Linear(2, 1).to(dtype)
    layer.weight.data = torch.tensor([[-1.5, 0.25]], dtype=dtype)
    assert PrunableLayer("0", layer, LINEAR).values().tolist() == [[-1.5, 0.25]]


def test_values_refuses_weights_that_are_not_finite():
    layer = nn.Linear(2, 1)
    layer.weight.data[0, 0] = float("nan")
    with pytest.raises(InputError, match="head: the weight holds NaN"):
        PrunableLayer("head", layer, LINEAR).values()


def test_alive():
    layer = PrunableLayer("0", nn.Linear(2, 1), LINEAR)
    assert layer.alive() is None
    mask = attach_mask(layer.module).mask
    assert layer.alive() is None
    mask[0, 1] = False
    assert layer.alive().tolist() == [[True, False]]
