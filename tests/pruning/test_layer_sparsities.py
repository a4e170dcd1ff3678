"""Levels of layers: equal total, less loss than uniform ones."""

import copy
import itertools

import pytest
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import BalancedPruning, FilterPruning, layer_sparsities, one_shot
from tvm_sparse.pruning.compensation.layer import judged
from tvm_sparse.pruning.compensation.statistics import InputStatistics
from tvm_sparse.pruning.layer_sparsities import chosen

LEVELS = (0.25, 0.5, 0.75)


def losses(seed):
    """Convex losses of four layers, which grow at different rates."""
    generator = torch.Generator().manual_seed(seed)
    rates = torch.rand(4, generator=generator) + 0.1
    return {str(i): {s: float(r) * s**2 for s in LEVELS} for i, r in enumerate(rates)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("target", [0.25, 0.4375, 0.5, 0.75])
def test_no_other_choice_with_as_many_zeros_loses_less(seed, target):
    found = losses(seed)
    taken = chosen(found, dict.fromkeys(found, 10), target)
    total = sum(found[name][s] for name, s in taken.items())
    assert sum(taken.values()) == pytest.approx(4 * target)
    for other in itertools.product(LEVELS, repeat=4):
        if sum(other) >= 4 * target - 1e-9:
            assert total <= sum(found[n][s] for n, s in zip(found, other, strict=True)) + 1e-9


def test_levels_above_the_hull_are_left_out():
    # The second level loses more than half of what the third one loses: it never pays.
    taken = chosen(
        {"a": {0.0: 0.0, 0.5: 0.9, 1.0: 1.0}, "b": {0.0: 0.0, 0.5: 0.8}}, {"a": 1, "b": 1}, 0.5
    )
    assert taken == {"a": 1.0, "b": 0.0}


def test_large_layers_count_by_their_weights():
    found = {name: {0.0: 0.0, 0.5: 1.0} for name in ("large", "small")}
    assert chosen(found, {"large": 100, "small": 1}, 0.4) == {"large": 0.5, "small": 0.0}


def test_a_target_out_of_reach_is_refused():
    with pytest.raises(InputError, match=r"less than 90\.00%"):
        chosen(losses(0), dict.fromkeys("0123", 1), 0.9)


def correlated(shape, seed):
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(shape[-1], shape[-1], generator=generator)
    return torch.randn(shape, generator=generator) @ mixed


def test_a_network_loses_less_at_the_same_sparsity():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    with torch.no_grad():  # the second layer hardly reads most of its inputs
        model[2].weight[:, torch.arange(64) % 4 != 0] *= 0.02
    data, method = list(correlated((256, 64), 1).split(64)), BalancedPruning(0.5)
    before = copy.deepcopy(model.state_dict())
    found = layer_sparsities(model, data, method, (0.25, 0.5, 0.75))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert found == {"0.weight": 0.25, "2.weight": 0.75}
    errors, fresh = [], correlated((256, 64), 1)
    for sparsities in (None, found):
        pruned = copy.deepcopy(model)
        pruner = one_shot(pruned, data, method, sparsities=sparsities)
        assert pruner.report.sparsity == pytest.approx(0.5)
        errors.append(float((pruned(fresh) - model(fresh)).detach().square().sum()))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize(
    ("sparsities", "method", "said"),
    [
        ({"nothing": 0.5}, BalancedPruning(0.5), "'nothing' is not pruned"),
        ({"0.weight": 0.5}, FilterPruning(0.5), "does not prune each layer by itself"),
        ({"0.weight": 1.5}, BalancedPruning(0.5), "0 to 1"),
    ],
)
def test_sparsities_that_cannot_be_are_refused(sparsities, method, said):
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(InputError, match=said):
        one_shot(model, [torch.randn(8, 32)], method, sparsities=sparsities)
    assert model.state_dict().keys() == before.keys()


def test_no_levels_and_methods_of_several_layers_are_refused():
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    with pytest.raises(InputError, match="sparsities: none"):
        layer_sparsities(model, [torch.randn(8, 32)], BalancedPruning(0.5), ())
    with pytest.raises(InputError, match="does not prune each layer"):
        layer_sparsities(model, [torch.randn(8, 32)], FilterPruning(0.5), (0.5,))


def test_a_layer_with_fewer_samples_than_columns_is_judged_on_others():
    # Twelve samples say nothing of 256 columns: fitted to them, any weights on a mask lose little.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 64))
    data = list(torch.randn(16, 1, 256).split(4))
    first = nn.Sequential(copy.deepcopy(model[0]))
    pruner = one_shot(first, [x.squeeze(1) for x in data[:3]], BalancedPruning(0.75), damping=1e-4)
    fitted = float(pruner.report.layers[0].note.split("%")[0]) / 100
    layer = next(iter(BalancedPruning(0.75).select(model, ("0*",), ())))
    inputs = data[3].squeeze(1).double()
    statistics = InputStatistics("0")
    statistics.add(inputs[None].float(), inputs[None].float())
    found = judged(layer, first[0].weight.detach(), statistics)
    dense, new = (inputs @ m[0].weight.detach().double().T for m in (model, first))
    assert found == pytest.approx(float((new - dense).square().sum() / dense.square().sum()), 1e-5)
    assert fitted < 0.05 < 0.3 < found
