"""Recurrent layers of PyTorch against float64: cells, layers, directions, states, sparse gates."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts

FAST = ts.Config(measure=False, cache=False)
INPUTS, HIDDEN = 32, 48

SLOW = pytest.mark.slow
LAYERS = [
    (nn.GRU, {"batch_first": True}, (3,), "state"),
    pytest.param(nn.GRU, {"bidirectional": True, "bias": False}, (3,), "", marks=SLOW),
    pytest.param(nn.GRU, {"num_layers": 2, "batch_first": True}, (2,), "sparse", marks=SLOW),
    (nn.GRU, {"num_layers": 2, "bidirectional": True, "bias": False}, (2,), "state sparse"),
    pytest.param(nn.GRU, {}, (), "state sparse", marks=SLOW),
    (nn.RNN, {}, (), "state sparse"),
    (nn.RNN, {"num_layers": 2, "bidirectional": True, "bias": False}, (3,), "sparse"),
    (nn.RNN, {"nonlinearity": "relu", "batch_first": True}, (3,), "state"),
    pytest.param(nn.RNN, {"nonlinearity": "relu", "num_layers": 2}, (1,), "sparse", marks=SLOW),
    pytest.param(nn.LSTM, {"num_layers": 2, "bidirectional": True}, (2,), "sparse", marks=SLOW),
]


def prune_gates(module: nn.Module) -> None:
    """Keep the 4 largest of each 16 neighbouring columns of every matrix."""
    for weight in module.parameters():
        if weight.dim() == 2:
            banks = weight.data.reshape(len(weight), -1, 16)
            rank = banks.abs().argsort(-1, descending=True).argsort(-1)
            weight.data = (banks * (rank < 4)).reshape(weight.shape)


def _tensors(nested):
    return (
        [nested] if isinstance(nested, torch.Tensor) else [t for n in nested for t in _tensors(n)]
    )


def _check(module, inputs, *, sparse):
    library = ts.compile(module, inputs, config=FAST)
    found = _tensors(library(*inputs))
    exact = copy.deepcopy(module).double()
    wanted = _tensors(exact(*(x.double() for x in inputs)))
    for got, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.double(), expected, atol=2e-6, rtol=0)
    gates = {name for name, p in module.named_parameters() if p.dim() == 2}
    assert {d.layer: d.chosen for d in library.decisions} == dict.fromkeys(
        gates, "balanced" if sparse else "dense"
    )


@pytest.mark.parametrize(("kind", "options", "batch", "given"), LAYERS)
@torch.no_grad()
def test_layers(kind, options, batch, given):
    torch.manual_seed(0)
    module = kind(INPUTS, HIDDEN, **options).eval()
    if "sparse" in given:
        prune_gates(module)
    extents = (*batch, 2) if options.get("batch_first") else (2, *batch)
    inputs = [torch.randn(*extents, INPUTS)]
    if "state" in given:
        directions = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        inputs.append(torch.randn(directions, *batch, HIDDEN))
    _check(module, tuple(inputs), sparse="sparse" in given)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.RNNCell])
@torch.no_grad()
def test_cells(kind):
    torch.manual_seed(0)
    module = kind(INPUTS, HIDDEN).eval()
    prune_gates(module)
    _check(module, (torch.randn(2, INPUTS),), sparse=True)


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
@torch.no_grad()
def test_gates_are_pruned_and_seen(kind):
    torch.manual_seed(0)
    module = kind(INPUTS, HIDDEN).eval()
    ts.prune.prune(module, ts.prune.BalancedPruning(0.75))
    cell = kind.__name__.lower()
    rows = {row.layer: row for row in ts.inspect(module).rows}
    assert {name: row.kind for name, row in rows.items()} == {
        "weight_ih_l0": f"{cell} input gates",
        "weight_hh_l0": f"{cell} hidden gates",
    }
    assert {row.pattern for row in rows.values()} == {"balanced 4 of 16"}
