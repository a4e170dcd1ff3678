import pytest
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import (
    BalancedPruning,
    DEPrune,
    Exponential,
    JointPruning,
    Levels,
    OneShot,
    load_recipe,
)
from tvm_sparse.pruning.recipe import METHODS, parse_recipe

RECIPE = """
method: balanced
sparsity: 0.9
bank: 32
rounding: reach
ignore: ["1"]
schedule: {kind: levels, sparsities: [0.75, 0.9]}
"""


def test_a_recipe_prunes(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    recipe = load_recipe(path)
    assert recipe.method == BalancedPruning(0.9, bank=32, rounding="reach")
    assert recipe.schedule.share(0) == Levels([0.75, 0.9]).share(0)
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 8))
    pruner = recipe.pruner(model)
    pruner.step()
    assert pruner.report.sparsity == 0.75
    assert pruner.report.skipped == {"1": "in ignore"}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_recipe(name):
    keys = {"deprune": {"depthwise": 0.5}, "n_m": {"n": 1, "m": 4}}.get(name, {"sparsity": 0.5})
    recipe = parse_recipe({"method": name, **keys})
    assert recipe.schedule == OneShot()
    assert recipe.method.describe()


def test_nested_values_and_schedules():
    joint = parse_recipe({"method": "joint", "sparsity": 0.5, "block": [8, 8]})
    assert joint.method == JointPruning(0.5, block=(8, 8))
    table = {"method": "deprune", "depthwise": 0.7, "variant": "DEPrune-BH", "alpha": {"dw": 1.1}}
    assert parse_recipe(table).method == DEPrune(0.7, variant="DEPrune-BH", alpha={"dw": 1.1})
    schedule = {"kind": "exponential", "total": 10, "start": 0, "every": 5}
    recipe = parse_recipe({"method": "balanced", "sparsity": 0.5, "schedule": schedule})
    assert recipe.schedule == Exponential(10, 0, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], "holds a list"),
        ({}, "unknown 'None'"),
        ({"method": "balance"}, "unknown 'balance', did you mean 'balanced'"),
        ({"method": "balanced", "sparsty": 0.5}, "unknown 'sparsty', did you mean 'sparsity'"),
        ({"method": "balanced"}, "no 'sparsity'"),
        ({"method": "balanced", "sparsity": "much"}, "recipe, sparsity: 'much'"),
        ({"method": "balanced", "sparsity": 2}, "expected 0 to 1"),
        ({"method": "balanced", "sparsity": 0.5, "rounding": "up"}, "rounding: 'up'"),
        ({"method": "balanced", "sparsity": 0.5, "schedule": "fast"}, "a mapping with 'kind'"),
        (
            {"method": "balanced", "sparsity": 0.5, "schedule": {"kind": "level"}},
            "did you mean 'levels'",
        ),
        (
            {"method": "balanced", "sparsity": 0.5, "schedule": {"kind": "one_shot", "at": 3}},
            "unknown 'at'",
        ),
        ({"method": "balanced", "sparsity": 0.5, "ignor": ["a"]}, "did you mean 'ignore'"),
    ],
)
def test_mistakes_are_named(content, message):
    with pytest.raises(InputError, match=message):
        parse_recipe(content)


def test_files_that_are_no_recipe(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_recipe(tmp_path / "missing.yaml")
    (tmp_path / "bad.yaml").write_text("method: [")
    with pytest.raises(InputError, match="is not YAML"):
        load_recipe(tmp_path / "bad.yaml")


def test_yaml_cannot_run_code(tmp_path):
    path = tmp_path / "evil.yaml"
    path.write_text("method: !!python/object/apply:os.getcwd []")
    with pytest.raises(InputError, match="is not YAML"):
        load_recipe(path)
