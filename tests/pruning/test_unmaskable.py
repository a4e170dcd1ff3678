"""A weight that cannot be masked is left out with its reason; the rest of the model is pruned."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import prune as torch_prune

import tvm_sparse as ts
from tvm_sparse.errors import InputError

CALIBRATION = [torch.randn(2, 8, 6, 6)]


class Negated(nn.Module):
    def forward(self, weight):
        return -weight


def negated(layer: nn.Module, name: str = "weight") -> nn.Module:
    parametrize.register_parametrization(layer, name, Negated())
    return layer


def of_type(layer: nn.Module, dtype: torch.dtype) -> nn.Module:
    layer.weight = nn.Parameter(layer.weight.data.to(dtype), requires_grad=False)
    return layer


def masked_and_negated(layer: nn.Module) -> nn.Module:
    ts.prune.balanced(layer, 0.5, bank=4)
    return negated(layer)


def made_in_inference_mode(_layer: nn.Module) -> nn.Module:
    with torch.inference_mode():
        return nn.Conv2d(8, 16, 3, padding=1)


def sparse(layer: nn.Module) -> nn.Module:
    layer.weight = nn.Parameter(layer.weight.data.to_sparse())
    return layer


REASONS = {
    "weight norm": (parametrizations.weight_norm, "its weight is computed (WeightNorm)"),
    "spectral norm": (parametrizations.spectral_norm, "its weight is computed (SpectralNorm)"),
    "orthogonal": (parametrizations.orthogonal, "its weight is computed (Orthogonal)"),
    "own": (negated, "its weight is computed (Negated)"),
    "own behind our mask": (masked_and_negated, "its weight is computed (Negated)"),
    "old spectral norm": (nn.utils.spectral_norm, "its weight is computed (SpectralNorm)"),
    "torch prune": (
        lambda layer: torch_prune.l1_unstructured(layer, "weight", 0.5),
        "has a mask of torch.nn.utils.prune",
    ),
    "lazy": (lambda _: nn.LazyConv2d(16, 3, padding=1), "has no shape yet"),
    "complex": (lambda x: of_type(x, torch.complex64), "its weight is complex64"),
    "float8": (lambda x: of_type(x, torch.float8_e4m3fn), "its weight is float8_e4m3fn"),
    "int8": (lambda x: of_type(x, torch.int8), "its weight is int8"),
    "meta": (lambda layer: layer.to("meta"), "its weight is on the meta device"),
    "inference": (made_in_inference_mode, "its weight was made under torch.inference_mode"),
    "sparse": (sparse, "its weight is a sparse tensor"),
}

METHODS = {
    "balanced": lambda model: ts.prune.balanced(model, 0.5, bank=4),
    "n_m": ts.prune.n_m,
    "block": lambda model: ts.prune.block(model, 0.5),
    "joint": lambda model: ts.prune.joint(model, 0.5, criterion="magnitude"),
    "unstructured": lambda model: ts.prune.unstructured(model, 0.5),
    "global": lambda model: ts.prune.unstructured(model, 0.5, scope="global"),
    "filters": lambda model: ts.prune.filters(model, 0.5),
    "deprune": lambda model: ts.prune.deprune(model, 0.5, 0.5),
}


def network(change) -> nn.Sequential:
    return nn.Sequential(
        *(change(nn.Conv2d(8, 16, 3, padding=1)), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 16, 1), nn.ReLU(), nn.Conv2d(16, 8, 1)),
    ).eval()


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("method", METHODS)
def test_the_layer_is_skipped_with_its_reason(kind, method):
    change, reason = REASONS[kind]
    model = network(change)
    pruner = METHODS[method](model)
    assert pruner.report.skipped["0"].startswith(reason)
    assert "0" not in [layer.name for layer in pruner.report.layers]
    assert pruner.report.sparsity > 0.1
    pruner.squash_mask()
    assert any(bool((model[i].weight == 0).any()) for i in (2, 4, 5))


@pytest.mark.parametrize("kind", ["weight norm", "old spectral norm", "torch prune", "own"])
@pytest.mark.parametrize("method", [ts.prune.BalancedPruning(0.5, 4), ts.prune.FilterPruning(0.5)])
def test_calibrated_pruning_skips_it_too(kind, method):
    change, reason = REASONS[kind]
    model = network(change)
    before = model[0](CALIBRATION[0])
    report = ts.prune.one_shot(model, CALIBRATION, method).report
    assert report.skipped["0"].startswith(reason) and report.sparsity > 0.1
    torch.testing.assert_close(model[0](CALIBRATION[0]), before)


def test_levels_of_layers_are_chosen_without_it():
    model = network(nn.utils.spectral_norm)
    method, levels = ts.prune.BalancedPruning(0.5, 4), (0.25, 0.5, 0.75)
    found = ts.prune.layer_sparsities(model, CALIBRATION, method, levels)
    assert "0.weight" not in found and "2.weight" in found


def test_distilling_leaves_a_computed_weight_alone():
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 8)), nn.Linear(8, 8))
    dense = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    pruner = ts.prune.balanced(model, 0.5, bank=4)
    ts.prune.distil(model, dense, [torch.randn(4, 8)], steps=2)
    assert pruner.report.skipped == {"0": REASONS["weight norm"][1] + ", not a parameter"}


@pytest.mark.parametrize("method", ["filters", "deprune"])
def test_channels_stay_where_one_of_their_parameters_is_computed(method):
    model = network(lambda layer: layer)
    negated(model[5], "bias")
    report = METHODS[method](model).report
    assert "in 5.bias: its weight is computed (Negated)" in report.skipped["5"]


def test_each_weight_of_a_layer_has_its_own_reason():
    gates = parametrizations.weight_norm(nn.LSTM(8, 8), "weight_hh_l0")
    pruner = ts.prune.balanced(nn.Sequential(gates), 0.5, bank=4)
    assert [layer.name for layer in pruner.report.layers] == ["0.weight_ih_l0"]
    assert list(pruner.report.skipped) == ["0.weight_hh_l0"]
    attention = nn.MultiheadAttention(8, 2)
    parametrizations.spectral_norm(attention.out_proj)
    pruner = ts.prune.balanced(nn.Sequential(attention), 0.5, bank=4)
    assert list(pruner.report.skipped) == ["0.out_proj"]


def test_a_weight_shared_with_a_computed_one():
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.weight = first.weight
    pruner = ts.prune.balanced(nn.Sequential(negated(first), second), 0.5, bank=4)
    assert list(pruner.report.skipped) == ["0"]
    assert [layer.name for layer in pruner.report.layers] == ["1"]


def test_layers_of_other_sorts_are_told_too():
    quantized = torch.ao.nn.quantized.dynamic.Linear(8, 8)
    others = [nn.ConvTranspose2d(8, 8, 3), nn.LSTMCell(8, 8), quantized]
    skipped = ts.prune.balanced(nn.Sequential(*others, nn.Linear(8, 8)), bank=4).report.skipped
    assert skipped == {
        "0": "a transposed conv, which no method prunes",
        "1": "a recurrent cell, which no method prunes",
        "2": "its weight is quantized",
    }


def test_where_nothing_is_left_the_reasons_are_told():
    model = nn.Sequential(*(negated(nn.Linear(4, 4)) for _ in range(5)))
    told = r"no layer to prune \(0: its weight is computed \(Negated\).*; 2 more skipped\)"
    with pytest.raises(InputError, match=told):
        ts.prune.balanced(model, 0.5)
    with pytest.raises(InputError, match=r"no layer to prune \(0: a transposed conv"):
        ts.prune.balanced(nn.Sequential(nn.ConvTranspose2d(2, 2, 3)))


def test_a_model_that_does_not_run_on_the_calibration_data():
    model = nn.Sequential(nn.Linear(8, 8))
    with pytest.raises(InputError, match=r"calibration: the model does not run on a batch \("):
        ts.prune.one_shot(model, [torch.randn(2, 5)], ts.prune.BalancedPruning(0.5))
    assert type(model[0]) is nn.Linear
