"""What an artifact holds does not depend on whether the library has run before."""

from __future__ import annotations

import torch
from torch import nn

import tvm_sparse as ts
from tests.artifact.programs import linear
from tvm_sparse.artifact.pristine import Pristine


class Recurrent(nn.Module):
    """LLVM rewrites this one's code when it runs in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def content(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_exports_before_and_after_a_call_are_equal(tmp_path):
    torch.manual_seed(0)
    x = torch.rand(1, 3, 16)
    library = ts.compile(Recurrent().eval(), (x,), config=ts.Config(measure=False))
    before = content(library.export(tmp_path / "before"))
    library(x)
    library.profile(x.numpy(), repeat=1)
    assert content(library.export(tmp_path / "after")) == before


def test_the_copy_is_the_same_program(tmp_path):
    program = linear()
    program.export(tmp_path / "a")
    program.executable = Pristine(program.executable).executable()
    try:
        program.export(tmp_path / "b")
    finally:
        linear.cache_clear()
    assert content(tmp_path / "a") == content(tmp_path / "b")
