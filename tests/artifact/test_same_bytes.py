"""Two compilations of one model write the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.planes = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.attention = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.last = nn.LSTM(16, 8, batch_first=True)

    def forward(self, x):
        y = torch.relu(self.planes(torch.relu(self.first(x))))
        y = self.attention(y.flatten(2).transpose(1, 2))
        return self.last(y)[0], y.softmax(-1)


OPENED = {
    "closed": None,
    "batch": {"x": {0: Dim("b")}},
    "batch and planes": {"x": {0: Dim("b"), 2: Dim("h"), 3: Dim("w")}},
}


def network():
    torch.manual_seed(0)
    model = Network().eval()
    ts.prune.balanced(model, 0.75).squash_mask()
    return model, torch.randn(2, 3, 8, 8)


def write(name, place):
    """Compile a network with the extents ``name`` open, and write the artifact."""
    model, x = network()
    ts.compile(model, x, dynamic_shapes=OPENED[name], config=CONFIG).export(place)


def read(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.parametrize("name", OPENED)
def test_in_one_process(name, tmp_path):
    for run in "ab":
        write(name, tmp_path / run)
    assert read(tmp_path / "a") == read(tmp_path / "b")


@pytest.mark.grid
@pytest.mark.parametrize("name", OPENED)
def test_in_processes_that_hash_text_in_other_ways(name, tmp_path):
    for seed in "01":
        code = f"from tests.artifact.test_same_bytes import write; write({name!r}, {seed!r})"
        variables = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())}
        command = [sys.executable, "-W", "ignore", "-c", code]
        subprocess.run(command, env=variables, cwd=tmp_path, check=True, timeout=300)
    assert read(tmp_path / "0") == read(tmp_path / "1")
