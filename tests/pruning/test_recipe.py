import os
import random
from itertools import pairwise

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
    assert recipe.schedule.due(0) == Levels([0.75, 0.9]).due(0)
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 8))
    pruner = recipe.pruner(model)
    pruner.step()
    assert pruner.report.sparsity == 0.75
    assert pruner.report.skipped == {"1": "in ignore"}


@pytest.mark.parametrize("name", METHODS.parts())
def test_every_method_has_a_recipe(name):
    special = {
        "deprune": {"depthwise": 0.5},
        "n_m": {"n": 1, "m": 4},
        "dense": {},
        "layers": {"layers": {"0.weight": {"method": "balanced", "sparsity": 0.5}}},
    }
    keys = special.get(name, {"sparsity": 0.5})
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


def bomb() -> str:
    lines = ["method: balanced", "a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghij")]
    return "\n".join([*lines, "sparsity: *j"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("sparsity: " + "{a: " * 5000 + "1" + "}" * 5000, "nested too deeply"),
        (bomb(), "an alias"),
        ("a: &a [*a]", "an alias"),
        ("sparsity: 2001-99-99", "is not YAML"),
        ("sparsity: !!int x", "is not YAML"),
        ("sparsity: !!timestamp x", "is not YAML"),
        ("method: [balanced]", "unknown"),
        ("method: {a: b}", "unknown"),
        ("method: !!set {a}", "unknown"),
        ("1: 2\nmethod: n_m", "recipe.yaml"),
        ("method: balanced\nsparsity: .nan", "expected"),
        ("method: balanced\nsparsity: 0.5\nbank: " + "9" * 5000, "recipe.yaml"),
    ],
    ids=range(13),
)
def test_hostile_text_is_one_error(tmp_path, text, message):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_recipe(path)


def test_bytes_and_pipes_are_no_recipe(tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"method: \xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        load_recipe(tmp_path / "bytes.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in ("pipe.yaml", "."):
        with pytest.raises(InputError, match="no plain file"):
            load_recipe(tmp_path / name)


TOKENS = ["~", "-1", "1e999", ".nan", "2001-99-99", "!!int x", "[", "]", "{", "}", "? [1]", "&a"]
TOKENS += ["*a", "<<: {a: 1}", "9" * 5000, "true", "0", "---", "\0", "- ", "1:99:99", "!!set {a}"]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_recipes_are_refused_or_read(tmp_path, seed):
    generator, path, refused = random.Random(seed), tmp_path / "recipe.yaml", 0
    for _ in range(50):
        words = RECIPE.split(" ")
        for _ in range(generator.randint(1, 3)):
            words[generator.randrange(len(words))] = generator.choice(TOKENS)
        text = " ".join(words)
        path.write_text(text[: generator.choice([len(text), generator.randrange(len(text))])])
        try:
            load_recipe(path)
        except InputError:
            refused += 1
    assert refused > 25
