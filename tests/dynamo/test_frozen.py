"""Extents that Dynamo leaves open: one compilation serves them all, others stay static."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Encoder(nn.Module):
    """Embeddings of tokens and places, and a layer of a transformer with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.register_buffer("numbers", torch.arange(64)[None])
        self.joined, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places(self.numbers[:, : ids.shape[1]])
        q, k, v = (
            part.unflatten(-1, (-1, 8)).transpose(1, 2) for part in self.joined(x).chunk(3, -1)
        )
        seen = mask[:, None, None, :].bool()
        x = nn.functional.scaled_dot_product_attention(q, k, v, seen)
        return self.out(x.transpose(1, 2).flatten(2))[:, 1:]


class Waves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(2, 8, 3, padding=1), nn.Conv1d(8, 8, 5, stride=2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))).mean(-1)


def checked(model, calls, **how):
    """Return the shapes that were compiled for ``calls``, each of which is right."""
    torch.manual_seed(0)
    options = {"measure": False, "artifacts": False}
    fast = torch.compile(model, backend="tvm_sparse", options=options, **how)
    with torch.no_grad():
        for call in calls:
            torch.testing.assert_close(fast(*call), model(*call), rtol=1e-4, atol=1e-5)
    graphs = ts.partitions(fast).graphs
    assert all(len(graph.parts) == 1 and not graph.eager for graph in graphs)
    return [graph.shapes for graph in graphs]


def sentence(batch: int, length: int):
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[:, -1] = 0
    return torch.randint(0, 50, (batch, length)), mask


def test_sequences_of_any_length_and_batch():
    torch.manual_seed(0)
    sizes = ((2, 8), (3, 12), (4, 5), (3, 64))
    shapes = checked(Encoder().eval(), [sentence(*size) for size in sizes])
    assert shapes == ["int64[2, 8], int64[2, 8]", "int64[3, 12], int64[3, 12]"]


def test_dynamic_shapes_are_open_from_the_first_call_on():
    """A width that a norm fixes is no symbol any more when the graph is compiled."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 24)).eval()
    calls = [(torch.randn(*size, 16),) for size in ((2, 9), (3, 17), (2, 33))]
    assert checked(model, calls, dynamic=True) == ["float32[2, 9, 16]"]


def test_lengths_that_pytorch_refuses_to_leave_open_are_static():
    torch.manual_seed(0)
    lengths = (64, 40, 41, 1000, 16, 7, 7)
    shapes = checked(Waves().eval(), [(torch.randn(2, 2, n),) for n in lengths])
    assert shapes == [f"float32[2, 2, {n}]" for n in (64, 40, 7)]


def test_other_weights_keep_the_bounds_of_the_first():
    """Models of one class share a graph of Dynamo's."""
    options = {"measure": False, "artifacts": False}
    torch.manual_seed(0)
    models = [Waves().eval() for _ in range(2)]
    programs = [torch.compile(m, backend="tvm_sparse", options=options) for m in models]
    with torch.no_grad():
        for number, length in ((0, 64), (0, 9), (1, 40), (0, 12), (1, 8), (1, 9)):
            x = torch.randn(2, 2, length)
            wanted = models[number](x)
            torch.testing.assert_close(programs[number](x), wanted, rtol=1e-4, atol=1e-5)
    shapes = [graph.shapes for graph in ts.partitions(programs[0]).graphs]
    assert shapes == [f"float32[2, 2, {length}]" for length in (64, 9)]


class Step(nn.Module):
    """Attention of one new row to all rows before: each cache has an extent of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.joined = nn.Linear(16, 48)

    def forward(self, x, keys, values):
        q, k, v = (
            part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.joined(x).chunk(3, -1)
        )
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return nn.functional.scaled_dot_product_attention(q, keys, values)


def test_two_caches_that_grow_are_compiled_once():
    calls = [(torch.rand(1, 1, 16), *torch.rand(2, 1, 2, n, 8)) for n in (3, 4, 5, 9, 17)]
    assert len(checked(Step(), calls)) == 2  # the first length, and all others
