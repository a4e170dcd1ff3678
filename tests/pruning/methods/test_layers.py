import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import InputError
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import BalancedPruning, PatternPruning, UnstructuredPruning, one_shot
from tvm_sparse.pruning.methods.dense import KeepAll
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.recipe import load_recipe, parse_recipe
from tvm_sparse.pruning.spelling import spelled


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 32),
        nn.Linear(32, 8),
    )


METHOD = LayerPruning(
    {
        "0.weight": BalancedPruning(0.75),
        "3.weight": PatternPruning(Block(16, 1), 0.5, "hwi"),
    }
)


def zeros(model, name):
    return float((model.get_submodule(name).weight == 0).float().mean())


@pytest.mark.parametrize("how", ["once", "one_shot"])
def test_each_layer_has_its_own_pattern_and_the_others_stay_dense(model, how):
    if how == "once":
        pruner = ts.prune.prune(model, METHOD)
    else:
        pruner = one_shot(model, [torch.randn(8, 16, 4, 4)], METHOD)
    assert [zeros(model, n) for n in "034"] == [0.75, 0.5, 0]
    columns = model[3].weight.reshape(2, 16, 256) == 0
    assert (columns.all(1) | ~columns.any(1)).all()
    assert pruner.report.skipped["4"] == "no method for it"


def test_one_shot_prunes_a_layer_as_its_method_alone_does(model):
    batches = [torch.randn(16, 16, 4, 4)]
    other = copy.deepcopy(model)
    one_shot(model, batches, LayerPruning({"0.weight": BalancedPruning(0.75)}))
    one_shot(other, batches, BalancedPruning(0.75), include=["0"])
    torch.testing.assert_close(model[0].weight, other[0].weight)


def test_a_dense_layer_of_a_method_adapts_to_those_before_it(model):
    batches, dense = [torch.randn(64, 16, 4, 4)], copy.deepcopy(model)
    own = {"0.weight": KeepAll(), "3.weight": BalancedPruning(0.75), "4.weight": KeepAll()}
    pruner = one_shot(model, batches, LayerPruning(own))
    pruner.squash_mask()
    torch.testing.assert_close(model[0].weight, dense[0].weight)  # nothing was lost before it
    assert zeros(model, "3") == 0.75 and zeros(model, "4") == 0
    with torch.no_grad():
        wanted, found = dense(batches[0]), model(batches[0])
        model[4].weight.copy_(dense[4].weight)
        untouched = model(batches[0])
    assert (found - wanted).norm() < 0.9 * (untouched - wanted).norm()


def test_a_method_for_all_layers_at_once_is_refused():
    with pytest.raises(InputError, match=r"layers, a.weight: .*threshold per global"):
        LayerPruning({"a.weight": UnstructuredPruning(0.5, "global")})


def test_a_name_that_the_model_lacks_is_refused_with_the_nearest(model):
    method = LayerPruning({"3.wieght": BalancedPruning(0.5)})
    with pytest.raises(InputError, match=r"did you mean '3\.weight'"):
        method.select(model, ("*",), ())
    with pytest.raises(InputError, match=r"7\.weight: the model has no such weight"):
        LayerPruning({"7.weight": BalancedPruning(0.5)}).select(model, ("*",), ())


def test_layers_that_are_ignored_stay_dense(model):
    ts.prune.prune(model, METHOD, ignore=["3"])
    assert [zeros(model, n) for n in "034"] == [0.75, 0, 0]


@pytest.mark.parametrize(
    "method",
    [
        METHOD,
        BalancedPruning(0.5, bank=8, share=2),
        PatternPruning(Block(4, 4), 0.5),
        ts.prune.JointPruning(0.5, block=(8, 8)),
        UnstructuredPruning(0.9),
        ts.prune.DEPrune(0.5),
    ],
)
def test_a_recipe_spells_the_method(method, tmp_path):
    import json

    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(spelled(method)))
    assert load_recipe(path).method == method


def test_what_recipes_do_not_know_has_no_spelling():
    from tvm_sparse.patterns.balanced import Balanced

    with pytest.raises(InputError, match="knows no name"):
        spelled(PatternPruning(Balanced(4, 2), 0.5))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({}, "layers: none"),
        ({"a.weight": {"method": "balancd"}}, "layers, a.weight, method: unknown 'balancd'"),
        ({"a.weight": {"method": "balanced", "sparsty": 1}}, "did you mean 'sparsity'"),
        ({"a.weight": 0.5}, "dict"),
    ],
)
def test_wrong_layers_are_refused_by_name(layers, message):
    with pytest.raises(InputError, match=message):
        parse_recipe({"method": "layers", "layers": layers})


def test_numerics_of_a_recipe():
    content = {"method": "balanced", "sparsity": 0.5, "numerics": "int8", "plan": {"any": 1}}
    assert parse_recipe(content).numerics == "int8"
    with pytest.raises(InputError, match="numerics"):
        parse_recipe({**content, "numerics": "int9"})
