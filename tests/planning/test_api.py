import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.planning import api


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 64, 64),
        nn.ReLU(),
        nn.Linear(64, 16),
    ).eval()


@pytest.fixture
def calibration():
    torch.manual_seed(1)
    return [torch.randn(8, 16, 8, 8) for _ in range(3)]


EXAMPLE = torch.randn(1, 16, 8, 8, generator=torch.Generator().manual_seed(2))
BUDGET = {"max_drop": 0.9, "levels": [0.75], "trials": 3, "example_inputs": EXAMPLE}
MODELLED = {**BUDGET, "config": ts.Config(measure=False)}


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("tvm_sparse.planning.tables.cache_directory", lambda: tmp_path)


def test_a_plan_of_measured_times_prunes_compiles_and_is_checked(model, calibration, own_cache):
    before = copy.deepcopy(model.state_dict())
    plan = ts.plan(model, calibration, **BUDGET)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert plan.tables.layers == ("0.weight", "3.weight", "5.weight")
    (costs,) = plan.tables.costs.values()
    assert costs.source == "measured" and costs.whole_us([0, 0, 0]) == plan.tables.dense_us
    assert (costs.us[:, 0] > 0).all() and (plan.tables.losses[:, 1] > 0).all()
    pruner = ts.prune.one_shot(model, calibration, plan.method)
    assert {layer.name + ".weight" for layer in pruner.report.layers} == set(plan.method.layers)
    library = plan.compile(pruner.squash_mask(), EXAMPLE)
    torch.testing.assert_close(library(EXAMPLE), model(EXAMPLE), rtol=1e-4, atol=1e-4)
    check = plan.check(library)
    assert check.measured_ms > 0 and check.bytes == library.nbytes
    assert plan.nbytes == pytest.approx(library.nbytes, rel=0.5)  # small layers may stay dense


def test_another_budget_needs_the_tables_only(model, calibration, own_cache, monkeypatch):
    first = ts.plan(model, calibration, **MODELLED)
    monkeypatch.setattr(api, "tables_of", None)
    found = ts.plan(model, calibration, **{**MODELLED, "max_drop": None}, speedup=1.3)
    assert found == first.again(speedup=1.3)
    assert found.speedup >= 1.3
    assert "modelled" in found.verdict()
    for changed in ({"levels": [0.5]}, {"seed": 1}, {"ignore": ["5"]}):
        with pytest.raises(TypeError):  # other tables, which are not there
            ts.plan(model, calibration, **{**MODELLED, **changed})
    model[5].weight.data[0, 0] += 1
    with pytest.raises(TypeError):
        ts.plan(model, calibration, **MODELLED)


def test_equal_seeds_give_equal_plans(own_cache):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16)).eval()
    calibration = [torch.randn(8, 64) for _ in range(2)]
    how = {"example_inputs": calibration[0][:1], "config": ts.Config(measure=False, cache=False)}
    found = [ts.plan(model, calibration, **{**MODELLED, **how}) for _ in range(2)]
    assert found[0] == found[1]
    assert (found[0].tables.losses == found[1].tables.losses).all()


def test_bytes_may_be_allowed(model, calibration, own_cache):
    plan = ts.plan(model, calibration, **MODELLED, numerics=["int8"])
    assert plan.numerics == "int8" and plan.recipe.numerics == "int8"
    assert 0 < plan.tables.costs["int8"].drop < 0.1
    assert plan.tables.costs["int8"].whole_bytes([0, 0, 0]) < 0.4 * sum(plan.tables.sizes) * 4


def test_layers_that_never_run_stay_out(calibration, own_cache):
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.idle, self.conv = nn.Linear(16, 16), nn.Conv2d(16, 16, 3)

        def forward(self, x):
            return self.conv(x)

    plan = ts.plan(Idle().eval(), calibration, **MODELLED)
    assert plan.tables.layers == ("conv.weight",)


def test_bad_data_is_told_before_networks_are_compiled(model, own_cache, monkeypatch):
    monkeypatch.setattr("tvm_sparse.planning.networks.compile", None)
    with pytest.raises(ts.InputError, match="NaN or infinite"):
        ts.plan(model, [torch.full((2, 16, 8, 8), float("nan"))], **MODELLED)
    with pytest.raises(ts.InputError, match="does not run on a batch"):
        ts.plan(model, [torch.zeros(2, 3)], **MODELLED)

    idle = nn.Sequential(nn.ReLU())
    idle[0].weights = nn.Linear(4, 4)  # is in the model, but nothing calls it
    with pytest.raises(ts.InputError, match="no layer that may be pruned is called"):
        ts.plan(idle, [torch.zeros(2, 4)], **MODELLED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got none as a budget"),
        ({"speedup": 2, "max_drop": 0.1}, "got speedup, max_drop as a budget"),
        ({"speedup": 2, "levels": [1.0]}, "fractions of zeros"),
        ({"speedup": 2, "numerics": "int8"}, "'int8'; expected some of"),
        ({"speedup": 2, "methods": [ts.prune.DEPrune(0.5)]}, "does not prune each layer by itself"),
    ],
)
def test_wrong_use_is_told_before_any_work(model, calibration, monkeypatch, options, message):
    monkeypatch.setattr(api, "tables_of", None)
    with pytest.raises(ts.InputError, match=message):
        ts.plan(model, calibration, **options)
    with pytest.raises(ts.InputError, match="no batch"):
        ts.plan(model, [], speedup=2)
