"""One artifact for several CPUs: the best code is taken, equal weights are there once."""

from __future__ import annotations

import pickle
import shutil
import subprocess

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.runtime import native
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.pruner import Pruner
from tvm_sparse_runtime import RuntimeArtifactError, config, host, load
from tvm_sparse_runtime.__main__ import main
from tvm_sparse_runtime.manifest import FILE_NAME
from tvm_sparse_runtime.parsing import parse

TARGETS = ["cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64-v2"]
X = np.random.default_rng(0).random((3, 96), np.float32)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    pruner = Pruner(model, BalancedPruning(0.75))
    pruner.step()
    pruner.squash_mask()
    return model


@pytest.fixture(scope="module")
def library(model):
    example = (torch.from_numpy(X),)
    return ts.compile_for(model, example, targets=TARGETS, config=ts.Config(measure=False))


@pytest.fixture(scope="module")
def artifact(library, tmp_path_factory):
    return library.export(tmp_path_factory.mktemp("several") / "a.tvms")


@pytest.fixture
def cpu(monkeypatch):
    """Let this machine look as if it had these instruction sets only."""

    def pretend(flags):
        monkeypatch.setattr(host, "cpu_features", lambda: frozenset(flags))

    return pretend


def test_the_least_comes_first(library):
    found = [one.target.attrs["mcpu"] for one in (library, *library.alternatives)]
    assert found == ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


def test_each_machine_takes_the_best_that_it_runs(artifact, model, cpu):
    programs = parse((artifact / FILE_NAME).read_bytes()).programs()
    features = {one.target.mcpu: set(one.target.cpu_features) for one in programs}
    wanted = model(torch.from_numpy(X)).detach().numpy()
    here = host.cpu_features()
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        if not features[name] <= here:
            continue
        cpu(features[name])
        loaded = load(artifact)
        assert loaded.manifest.target.mcpu == name
        np.testing.assert_allclose(loaded(X), wanted, rtol=1e-5, atol=1e-6)


def test_a_lesser_machine_is_refused_with_what_it_lacks(artifact, cpu):
    cpu({"sse"})
    with pytest.raises(RuntimeArtifactError, match=r"'x86-64-v2', this one lacks .*sse4_2"):
        load(artifact)


def test_equal_weights_are_there_once(artifact, library):
    programs = [library, *library.alternatives]
    arrays = {a.tobytes() for one in programs for a in one.weights.values()}
    assert sum(map(len, arrays)) < sum(one.nbytes for one in programs)
    found = parse((artifact / FILE_NAME).read_bytes()).programs()
    offsets = {weight.offset for one in found for weight in one.weights}
    assert len(offsets) == len(arrays)


def test_c_takes_the_same(artifact, tmp_path):
    np.save(tmp_path / "x.npy", X)
    files = ["--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"]
    command = [config.place("program"), artifact, *files]
    subprocess.run(command, env=native.environment(), check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), load(artifact, threads=1)(X))


@pytest.mark.parametrize("index", range(4))
def test_damage_in_any_file_is_found(artifact, tmp_path, index):
    copy = shutil.copytree(artifact, tmp_path / "a.tvms")
    path = sorted(copy.iterdir())[index]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(RuntimeArtifactError):
        load(copy)
    assert native.opened(copy)[0] == native.BAD_ARTIFACT


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([], "at least one CPU or GPU"),
        (["cpu", "cuda:sm_90"], "CPUs only, or GPUs only"),
        (["cuda:sm_80,sm_90a", "cuda:a100"], "several programs for sm_80"),
        (["cpu:x86-64-v3", "aarch64"], "aarch64 and x86_64; expected one architecture"),
    ],
)
def test_targets_that_do_not_go_together(model, targets, words):
    with pytest.raises(InputError, match=words):
        ts.compile_for(model, (torch.from_numpy(X),), targets=targets)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(96, 32)

    def forward(self, x, *, scale=1.0):
        return self.linear(x) * scale


def test_it_takes_what_compile_takes():
    model, x = Scaled().eval(), torch.from_numpy(X)
    rows = torch.export.Dim("rows", max=8)
    told = []
    library = ts.compile_for(
        model,
        (x,),
        {"scale": 2.0},
        targets=TARGETS[1:],
        dynamic_shapes={"x": {0: rows}, "scale": None},
        precision="float32",
        database=None,
        config=ts.Config(measure=False),
        progress=lambda *step: told.append(step),
    )
    assert library.inputs[0].shape == ("rows", 96) and told
    torch.testing.assert_close(library(x[:2], scale=2.0), model(x[:2], scale=2.0).detach())


def test_decisions_are_those_of_the_program_that_is_taken(artifact, library, cpu):
    programs = parse((artifact / FILE_NAME).read_bytes()).programs()
    for made, program in zip((library, *library.alternatives), programs, strict=True):
        assert [d["layer"] for d in program.decisions] == [d.layer for d in made.decisions]
    cpu(programs[1].target.cpu_features)
    wanted = [d.chosen for d in library.alternatives[0].decisions]
    assert [d["chosen"] for d in load(artifact).manifest.decisions] == wanted


def test_what_was_taken_travels_by_pickle(artifact):
    loaded = load(artifact, threads=1)
    assert loaded.manifest.target.mcpu != "x86-64-v2"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded))(X), loaded(X))


def test_the_programs_are_told(artifact, capsys):
    assert main([str(artifact)]) == 0
    told = [line.strip() for line in capsys.readouterr().out.splitlines() if "program" in line]
    assert [line.split(":")[0] for line in told] == [
        f"program for x86-64-v{version}" for version in (2, 3, 4)
    ]
    assert "those of the programs above" in told[1]
    assert [line.endswith("it runs here") for line in told].count(True) == 1


def test_a_single_target_is_no_list(model):
    with pytest.raises(InputError, match=r"targets: is one, cpu:haswell; .*\['cpu:haswell'\]"):
        ts.compile_for(model, (torch.from_numpy(X),), targets="cpu:haswell")
