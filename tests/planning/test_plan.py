import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.planning.tables import costs, tables
from tvm_sparse.errors import InputError
from tvm_sparse.planning.budget import Budget
from tvm_sparse.planning.check import Check
from tvm_sparse.planning.plan import Plan
from tvm_sparse.pruning import BalancedPruning, KeepAll, LayerPruning, load_recipe


@pytest.fixture
def plan():
    return Plan.of(tables(), Budget("latency_ms", 0.36))


def test_a_plan_says_what_it_promises(plan):
    assert plan.latency_ms == pytest.approx(0.36)
    assert plan.speedup == pytest.approx(500 / 360)
    assert plan.nbytes == 1000 + 40 * 210
    assert plan.drop == pytest.approx(plan.tables.drop(0.03))
    assert plan.sparsity == pytest.approx(0.75 * 200 / 350)
    assert "predicted 0.36 ms (1.39x dense float32, measured)" in str(plan)


def test_each_layer_has_a_reason(plan):
    first, second, third = plan.layers
    assert first.reason == "balanced 50 % saves 40 us, loses 1.0e-02 more"
    assert second.reason == "dense takes 140 us, loses 3.0e-02 less"
    assert third.reason == "the only one that takes 50 us"


def test_a_plan_is_a_recipe_and_is_read_back(plan, tmp_path):
    path = plan.save(tmp_path / "plan.json")
    layers = {"a.weight": KeepAll(), "b.weight": BalancedPruning(0.75), "c.weight": KeepAll()}
    assert plan.method == LayerPruning(layers)
    assert load_recipe(path) == plan.recipe
    assert load_recipe(path).method == plan.method
    again = Plan.load(path)
    assert again == plan and again.to_json() == plan.to_json()
    assert again.again(speedup=1.2) == plan.again(speedup=1.2)


def test_bytes_come_with_the_recipe(tmp_path):
    plan = Plan.of(tables(int8=costs(0.5, drop=0.01)), Budget("speedup", 2))
    assert load_recipe(plan.save(tmp_path / "plan.json")).numerics == "int8"


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"plan": 3}', None])
def test_what_is_no_plan_is_refused(plan, tmp_path, damage):
    path = plan.save(tmp_path / "plan.json")
    content = json.loads(path.read_text())
    del content["plan"]["tables"]["costs"]["float32"]
    path.write_text(json.dumps(content) if damage is None else damage)
    with pytest.raises(InputError, match="is no plan"):
        Plan.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        Plan.load(tmp_path / "none.json")


def test_a_plan_that_prunes_nothing_says_so():
    plan = Plan.of(tables(), Budget("speedup", 1))
    assert plan.drop == 0
    with pytest.raises(InputError, match="prunes no layer"):
        _ = plan.method


def test_a_promise_within_five_percent_is_kept(plan):
    check = Check(0.36, 0.37, plan.nbytes, plan.nbytes)
    assert check.kept and plan.corrected(check) is plan
    assert "kept" in str(check)


@pytest.mark.parametrize("measured", [0.40, 0.30])
def test_a_broken_promise_corrects_the_plan_and_says_so(plan, measured):
    check = Check(plan.latency_ms, measured, plan.nbytes, plan.nbytes)
    assert not check.kept and "not kept" in str(check)
    again = plan.corrected(check)
    assert again.latency_ms <= 0.36
    assert "corrected by" in again.note and again.note in str(again)
    # The network that was measured is now predicted as it was measured.
    own = replace(again, choice=plan.choice)
    assert own.latency_ms == pytest.approx(measured)
    if measured > 0.36:
        assert again.choice != plan.choice


def test_a_correction_that_makes_the_budget_impossible_is_an_error(plan):
    with pytest.raises(InputError, match="is out of reach"):
        plan.corrected(Check(plan.latency_ms, 0.5, plan.nbytes, plan.nbytes))


def test_modelled_times_are_no_promise():
    plan = Plan.of(tables(float32=costs(source="modelled")), Budget("speedup", 1.2))
    with pytest.raises(InputError, match="are modelled, not promised"):
        plan.check(nn.Identity())


def test_a_promise_is_for_its_machine_and_threads():
    made = replace(tables(), threads=tables().threads + 1)
    library = ts.compile(nn.Linear(4, 4), torch.zeros(1, 4), config=ts.Config(measure=False))
    with pytest.raises(InputError, match="set TVM_NUM_THREADS"):
        Plan.of(made, Budget("speedup", 1.2)).check(library)
    check = Plan.of(tables(), Budget("speedup", 1.2)).check(library)
    assert check.bytes == library.nbytes and not check.kept  # it is another network


def test_plans_lose_no_more_than_one_level_everywhere(plan, tmp_path):
    found = plan.pareto()
    assert [row.label for row in found.rows] == ["balanced 50 %", "balanced 75 %"]
    assert all(row.planned <= row.uniform for row in found.rows)
    assert "one level everywhere" in str(found) and len(found.to_json()) == 2
    picture = found.save(tmp_path / "plan.svg").read_text()
    assert picture.count("<circle") == 3 and "<polyline" in picture
