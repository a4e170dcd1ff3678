"""Other values of the same masks go into an artifact without compiling, or are refused."""

from __future__ import annotations

import copy
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import tvm_sparse as ts
from tests.runtime import native
from tvm_sparse.cli.app import app
from tvm_sparse.errors import ArtifactError, InputError
from tvm_sparse.program.refresh import refresh
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.pruner import Pruner
from tvm_sparse_runtime import RuntimeArtifactError, load

X = torch.from_numpy(np.random.default_rng(0).random((1, 16, 8, 8), np.float32))
CONFIG = ts.Config(refreshable=True, force={"*": "balanced"})


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.act = nn.PReLU()
        self.fc = nn.Linear(2048, 24)

    def forward(self, x):
        return self.fc(self.act(self.norm(self.conv(x))).flatten(1))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    network = Network().eval()
    pruner = Pruner(network, BalancedPruning(0.75))
    pruner.step()
    pruner.squash_mask()
    network.norm.running_mean.normal_()
    network.norm.running_var.uniform_(0.5, 2)
    return network


@pytest.fixture(scope="module")
def artifact(model, tmp_path_factory):
    library = ts.compile(model, (X,), config=CONFIG)
    assert [decision.chosen for decision in library.decisions] == ["balanced"] * 2
    return library.export(tmp_path_factory.mktemp("refresh") / "old.tvms")


@pytest.fixture
def trained(model):
    """The model after some more training under its masks."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for name, weight in other.named_parameters():
            if not name.startswith("act"):
                weight.mul_(1 + torch.rand_like(weight))
        other.norm.running_mean.add_(0.5)
        other.norm.running_var.mul_(1.5)
    return other


def saved(tmp_path, state):
    save_file(state, tmp_path / "new.safetensors")
    return tmp_path / "new.safetensors"


def test_the_copy_is_what_compiling_again_gives(artifact, trained, tmp_path):
    weights = saved(tmp_path, trained.state_dict())
    arguments = [artifact, "-w", weights, "-o", tmp_path / "new.tvms", "--json"]
    done = CliRunner().invoke(app, ["refresh", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["artifact"] == str(tmp_path / "new.tvms")
    found = load(tmp_path / "new.tvms")(X)
    torch.testing.assert_close(found, trained(X).detach(), rtol=1e-4, atol=1e-4)
    again = ts.compile(trained, (X,), config=CONFIG).export(tmp_path / "again.tvms")
    np.testing.assert_array_equal(found.numpy(), load(again)(X).numpy())
    assert native.opened(tmp_path / "new.tvms")[0] == native.OK


def test_a_refreshed_artifact_can_be_refreshed(artifact, trained, model, tmp_path):
    refresh(artifact, saved(tmp_path, trained.state_dict()), tmp_path / "new.tvms")
    refresh(tmp_path / "new.tvms", saved(tmp_path, model.state_dict()), tmp_path / "old.tvms")
    np.testing.assert_array_equal(load(tmp_path / "old.tvms")(X), load(artifact)(X))


def changed(change):
    def state(model):
        found = {name: value.clone() for name, value in model.state_dict().items()}
        change(found)
        return found

    return state


def other_mask(state):
    row = state["fc.weight"][0]
    row.copy_(row.roll(1))


BAD = {
    "mask": (changed(other_mask), InputError, "its zeros are elsewhere"),
    "missing": (changed(lambda s: s.pop("conv.bias")), InputError, "no weight conv.bias"),
    "dtype": (
        changed(lambda s: s.update({"fc.bias": s["fc.bias"].double()})),
        InputError,
        "float64 of shape",
    ),
    "shape": (
        changed(lambda s: s.update({"fc.bias": s["fc.bias"][:3].clone()})),
        InputError,
        "expected float32 of shape",
    ),
    "nan": (changed(lambda s: s["fc.bias"].fill_(torch.nan)), InputError, "not finite"),
    "scalar in the code": (
        changed(lambda s: s["act.weight"].fill_(0.5)),
        ArtifactError,
        "its values change the code",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_would_not_be_right_is_refused(artifact, model, tmp_path, case):
    state, kind, words = BAD[case]
    with pytest.raises(kind, match=words):
        refresh(artifact, saved(tmp_path, state(model)), tmp_path / "new.tvms")
    assert not (tmp_path / "new.tvms").exists()


def test_an_artifact_without_its_graph(model, tmp_path):
    path = ts.compile(model, (X,), config=ts.Config(measure=False)).export(tmp_path / "a.tvms")
    with pytest.raises(ArtifactError, match=r"it holds no graph.*refreshable=True"):
        refresh(path, saved(tmp_path, model.state_dict()), tmp_path / "new.tvms")


def test_a_damaged_graph_is_found(artifact, model, tmp_path):
    damaged = shutil.copytree(artifact, tmp_path / "a.tvms")
    (damaged / "refresh.json").write_bytes(b"{}")
    with pytest.raises(RuntimeArtifactError, match=r"refresh\.json"):
        refresh(damaged, saved(tmp_path, model.state_dict()), tmp_path / "new.tvms")


def test_several_targets_have_none(model):
    with pytest.raises(InputError, match="several targets"):
        ts.compile_for(model, (X,), targets=["cpu"], config=CONFIG)


class Scaled(nn.Module):
    """A layer with a number of its own."""

    def __init__(self, gain):
        super().__init__()
        self.fc = nn.Linear(32, 32)
        self.register_buffer("gain", torch.tensor(gain))

    def forward(self, x):
        return torch.relu(self.fc(x) * self.gain)


def test_numbers_in_which_equal_layers_differ_may_change(tmp_path):
    network, x = nn.Sequential(Scaled(0.3), Scaled(0.7)).eval(), torch.randn(4, 32)
    config = ts.Config(refreshable=True, measure=False)
    old = ts.compile(network, (x,), config=config).export(tmp_path / "old.tvms")
    for layer, gain in zip(network, (0.9, 0.4), strict=True):
        layer.gain.fill_(gain)
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    refresh(old, tmp_path / "w.safetensors", tmp_path / "new.tvms")
    with torch.no_grad():
        torch.testing.assert_close(load(tmp_path / "new.tvms")(x), network(x))
