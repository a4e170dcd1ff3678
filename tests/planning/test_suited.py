"""The pattern that a machine's model is fastest with, for each layer."""

import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import InputError
from tvm_sparse.planning.suited import methods_at

ROWS, WIDE = 64, 1024
CHIP = "cuda:h200"
CONFIG = ts.Config(measure=False, libraries=False)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDE, WIDE), nn.ReLU(), nn.Linear(WIDE, 24)).eval().half()


def modelled(model, method, x):
    """Return what the chip's model says of the first layer, pruned by ``method``."""
    pruned = copy.deepcopy(model)
    ts.prune.prune(pruned, method, include=["0"]).squash_mask()
    library = ts.compile(pruned, (x,), target=CHIP, config=CONFIG)
    return library.decisions.records[0].modelled_us


def test_the_fastest_pattern_is_taken(model):
    x = torch.zeros(ROWS, WIDE).half()
    method = ts.method_for(model, x, target=CHIP, sparsity=0.875, config=CONFIG)
    assert list(method.layers) == ["0.weight"]
    methods = methods_at(0.875, parse_target(CHIP).target)
    times = {one.describe(): modelled(model, one, x) for one in methods}
    assert method.layers["0.weight"].describe() == min(times, key=times.get)
    pruner = ts.prune.prune(model, method)
    assert pruner.report.layers[0].sparsity == 0.875
    assert [layer.name for layer in pruner.report.layers] == ["0"]
    assert pruner.report.skipped["2"] == "no method for it"


def test_another_machine_may_like_another(model):
    model, x = copy.deepcopy(model).float(), torch.zeros(ROWS, WIDE)
    found = {
        target: ts.method_for(model, x, target=target, sparsity=0.875, config=CONFIG).layers
        for target in ("cpu", CHIP)
    }
    assert found["cpu"]["0.weight"] != found[CHIP]["0.weight"]


@pytest.mark.parametrize(("sparsity", "tried"), [(0.5, True), (0.75, False)])
def test_two_of_four_is_tried_where_it_has_as_many_zeros(sparsity, tried):
    methods = methods_at(sparsity, parse_target(CHIP).target)
    assert any(getattr(method, "bank", 0) == 4 for method in methods) == tried


def test_where_nothing_gains_it_says_so():
    small = nn.Sequential(nn.Linear(32, 32)).eval().half()
    with pytest.raises(InputError, match=r"no layer is faster with 50% zeros .*\(modelled\)"):
        ts.method_for(small, torch.zeros(64, 32).half(), target=CHIP, sparsity=0.5, config=CONFIG)
    with pytest.raises(InputError, match="0 to 1"):
        ts.method_for(small, torch.zeros(64, 32).half(), target=CHIP, sparsity=1.5)
