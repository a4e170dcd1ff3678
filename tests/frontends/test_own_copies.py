"""Models that assign a tensor to itself hold no state; those that change it do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import UnsupportedError

FAST = ts.Config(measure=False)


class Table(nn.Module):
    """Adds a table that it keeps, by a function of it."""

    def __init__(self, kept) -> None:
        super().__init__()
        self.linear, self.kept = nn.Linear(8, 8), kept
        self.register_buffer("table", torch.arange(8) - 3.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(rows, 8)`` to ``(rows, 8)``."""
        self.table = self.kept(self.table, x)
        return self.linear(x) + self.table


@pytest.mark.parametrize(
    "kept",
    [
        lambda table, x: table.to(x.device),
        lambda table, x: table.to(device=x.device, dtype=x.dtype),
        lambda table, _: table.contiguous().detach(),
    ],
)
def test_assignments_of_a_tensor_to_itself(kept):
    torch.manual_seed(0)
    model, x = Table(kept).eval(), torch.randn(3, 8)
    program = torch.export.export(model, (x,))
    nodes = len(program.graph.nodes)
    library = ts.compile(program, config=FAST)
    with torch.no_grad():
        expected = model(x)
    for _ in range(2):
        torch.testing.assert_close(library(x), expected, rtol=1e-5, atol=1e-5)
    assert len(program.graph.nodes) == nodes


def changed(table, _):
    """Return a copy that is changed through a view of it."""
    result = table.clone()
    result.view(2, 4).add_(1)
    return result


def changed_in_place(table, x):
    """Return the table itself, changed through a view of it."""
    result = table.to(x.device)
    result.view(2, 4).add_(1)
    return result


@pytest.mark.parametrize(
    "kept",
    [
        changed,
        changed_in_place,
        lambda table, _: table + 1,
        lambda table, _: table.to(torch.int32).to(torch.float32),
        lambda table, x: x[0],
    ],
)
def test_tensors_that_change_are_refused(kept):
    with pytest.raises(UnsupportedError, match="is changed by the model"):
        ts.compile(Table(kept).eval(), (torch.randn(3, 8),), config=FAST)
