"""A damaged ``.pt2`` file is one error that names it, or another sound model; it never hangs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.damage.watch import bad, watched


class Small(nn.Module):
    """A program with symbolic sizes, a buffer and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def forward(self, x):
        flat = x.reshape(x.shape[0] * x.shape[1], 6)
        return {"y": self.head(flat) + self.shift + torch.tensor(3.0)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    dims = {"x": {0: torch.export.Dim("batch", min=1, max=16)}}
    program = torch.export.export(Small().eval(), (torch.randn(2, 3, 6),), dynamic_shapes=dims)
    torch.export.save(program, path)
    return path


def assert_handled(sound, cases):
    found = watched("tests.damage.pt2", (sound,), cases, seconds=120)
    assert [outcome.case for outcome in found] == list(cases)
    assert bad(found) == []
    assert sum(outcome.result == "refused" for outcome in found) > len(found) / 2


def test_some_damages(sound):
    assert_handled(sound, range(0, 400, 57))


@pytest.mark.slow
def test_more_damages(sound):
    assert_handled(sound, range(400))
