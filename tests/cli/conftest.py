"""A small pruned model that the commands can name, and a way to call them in this process."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from tvm_sparse.cli import app
from tvm_sparse.patterns.balanced import Balanced

FACTORY = """
import torch
from torch import nn

def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
"""


@pytest.fixture
def small():
    """Two linear layers, the first one balanced 4 of 16."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()
    weight = model[0].weight.detach()
    weight *= torch.from_numpy(Balanced(16, 4).project(weight.abs().numpy()))
    return model


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory with ``factories:small`` in it."""
    (tmp_path / "factories.py").write_text(FACTORY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def pt2(here, small):
    """``small`` as ``model.pt2``, for batches of three."""
    path = here / "model.pt2"
    torch.export.save(torch.export.export(small, (torch.rand(3, 64),)), path)
    return path


@pytest.fixture
def call():
    """Call ``tvm-sparse`` with arguments; ``call(..., status=1)`` expects that exit status."""

    def invoke(*arguments, status=0):
        done = CliRunner().invoke(app, [str(a) for a in arguments])
        assert done.exit_code == status, done.output
        return done

    return invoke


@pytest.fixture
def call_json(call):
    """Call a command with ``--json`` and return what it printed."""
    return lambda *arguments: json.loads(call(*arguments, "--json").stdout)
