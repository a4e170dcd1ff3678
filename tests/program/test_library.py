"""Copies of a compiled library, in this process and in others, compute what it computes."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import tvm_sparse as ts
import tvm_sparse_runtime as rt
from tests.runtime import fresh
from tvm_sparse.errors import ArtifactError
from tvm_sparse.program import library as module

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Served(nn.Module):
    """A model that holds a compiled one."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


OTHER_PROCESS = """
import pickle, sys, torch
with open(sys.argv[1], "rb") as file:
    library, x, wanted = pickle.load(file)
assert torch.equal(library(x), wanted)
"""
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "twice": lambda value: copy.deepcopy(pickle.loads(pickle.dumps(copy.copy(value)))),
    "torch.save": saved,
}


@pytest.fixture(scope="module")
def library():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval()
    return ts.compile(model, (X,), config=ts.Config(measure=False))


@pytest.mark.grid
@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("held", [False, True])
def test_copies_compute_the_same(library, kind, held):
    wanted = library(X)
    assert torch.equal(COPIES[kind](Served(library) if held else library)(X), wanted)


def test_copies_have_what_the_library_has(library, tmp_path):
    library(X)
    other = pickle.loads(pickle.dumps(library))
    assert repr(other) == repr(library)
    assert other.decisions.to_json() == library.decisions.to_json()
    assert len(other.profile(X)) == len(library.profile(X))
    assert torch.equal(rt.load(other.export(tmp_path / "a.tvms"))(X), library(X))


def test_copies_of_nested_results():
    class Two(nn.Module):
        def forward(self, x, *, y):
            return {"a": x + y, "b": (x, y)}

    library = ts.compile(Two(), (X,), kwargs={"y": X}, config=ts.Config(measure=False))
    found = copy.deepcopy(library)(X, y=X)
    assert torch.equal(found["a"], X + X)
    assert [type(found["b"]), len(found["b"])] == [tuple, 2]


def test_a_fresh_process_runs_it(library, tmp_path):
    (tmp_path / "library.pickle").write_bytes(pickle.dumps((library, X, library(X))))
    done = fresh.run(OTHER_PROCESS, tmp_path / "library.pickle")
    assert done.returncode == 0, done.stderr


def test_another_release_is_refused(library, monkeypatch):
    content = pickle.dumps(library)
    monkeypatch.setattr(module, "version", lambda name: "0.0.0")
    with pytest.raises(ArtifactError, match=r"pickled library: made with .* here it is 0\.0\.0"):
        pickle.loads(content)


def test_a_machine_that_has_less_is_refused(library, monkeypatch):
    other = pickle.loads(pickle.dumps(library))
    monkeypatch.setattr(module, "cpu_features", frozenset)
    with pytest.raises(ArtifactError, match="which this machine is not"):
        other(X)
