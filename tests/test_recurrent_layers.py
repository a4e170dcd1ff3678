"""Recurrent layers of PyTorch against float64: cells, layers, directions, states, sparse gates."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tvm_sparse as ts
from tests.modules import Apply

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
    (nn.LSTM, {"batch_first": True}, (3,), "state sparse"),
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
    wanted = _tensors(exact(*pytree.tree_map(torch.Tensor.double, inputs)))
    for got, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.double(), expected, atol=2e-6, rtol=0)
    gates = {name for name, p in module.named_parameters() if p.dim() == 2}
    assert {d.layer: d.chosen for d in library.decisions} == dict.fromkeys(
        gates, "balanced" if sparse else "dense"
    )


@pytest.mark.grid
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
        states = [torch.randn(directions, *batch, HIDDEN) for _ in range(1 + (kind is nn.LSTM))]
        inputs.append(states[0] if len(states) == 1 else tuple(states))
    _check(module, tuple(inputs), sparse="sparse" in given)


@pytest.mark.grid
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


def _steps(library):
    """Return the functions that have all steps of a layer, and the contractions in all."""
    names = [kernel.function for kernel in library.kernels if kernel.contraction]
    return [name for name in names if name.startswith("lstm_")], names


@torch.no_grad()
def test_all_steps_are_one_function_for_any_batch():
    torch.manual_seed(0)
    module = nn.LSTM(INPUTS, HIDDEN, bidirectional=True, batch_first=True).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    inputs = (torch.randn(2, 30, INPUTS),)
    library = ts.compile(module, inputs, dynamic_shapes=({0: batch},), config=FAST)
    whole, contractions = _steps(library)
    assert len(whole) == 2
    assert len(contractions) == 4
    assert all(kernel.ours for kernel in library.kernels if kernel.contraction)
    for rows in (1, 5):
        x = torch.randn(rows, 30, INPUTS)
        exact = copy.deepcopy(module).double()(x.double())
        for got, wanted in zip(_tensors(library(x)), _tensors(exact), strict=True):
            torch.testing.assert_close(got.double(), wanted, atol=2e-6, rtol=0)


BATCHES = {
    "doubled": lambda x: torch.cat([x, -x]),
    "one more": lambda x: torch.cat([x, x[:1]]),
    "half": lambda x: x[: (x.shape[0] + 1) // 2],
    "product": lambda x: x.reshape(-1, 1, INPUTS).expand(-1, 3, -1) * torch.arange(3)[:, None],
}
"""What a layer reads of ``(batch, steps, INPUTS)``: its batch is computed from open extents."""


@pytest.mark.grid
@pytest.mark.parametrize("batch", BATCHES)
@torch.no_grad()
def test_a_computed_batch_of_an_open_length(batch):
    torch.manual_seed(0)
    layer = (nn.LSTM if batch == "doubled" else nn.GRU)(INPUTS, HIDDEN, batch_first=True).eval()
    prune_gates(layer)
    model = nn.Sequential(Apply(BATCHES[batch]), layer, Apply(lambda found: found[0]))
    dims = {axis: torch.export.Dim(name, min=2, max=40) for axis, name in enumerate("bt")}
    x = torch.randn(4, 9, INPUTS)
    library = ts.compile(model, (x,), dynamic_shapes=(dims,), config=FAST)
    assert {d.chosen for d in library.decisions} == {"balanced"}
    for size in ((2, 2), (7, 16), (16, 17), (40, 31)):
        x = torch.randn(*size, INPUTS)
        torch.testing.assert_close(library(x), model(x), atol=2e-6, rtol=0)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"proj_size": 8}, {}),
        pytest.param(
            {}, {"precision": "bfloat16"}, marks=pytest.mark.isa("avx512bf16", "avx512vbmi")
        ),
    ],
)
@torch.no_grad()
def test_what_the_function_does_not_compute_is_written_out_in_steps(options, changes):
    torch.manual_seed(0)
    module, widths = (
        nn.LSTM(INPUTS, HIDDEN, **options).eval(),
        (options.get("proj_size", HIDDEN), HIDDEN),
    )
    inputs = (torch.randn(2, 3, INPUTS), tuple(torch.randn(1, 3, width) for width in widths))
    library = ts.compile(module, inputs, config=replace(FAST, **changes))
    assert _steps(library)[0] == []
    for got, wanted in zip(_tensors(library(*inputs)), _tensors(module(*inputs)), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-2 if changes else 2e-6, rtol=0)


@pytest.mark.grid
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_formats_of_an_open_length_are_timed(cell):
    """As by default; the number of steps is what is typical."""
    torch.manual_seed(0)
    module = cell(INPUTS, 256, batch_first=True).eval().requires_grad_(False)
    prune_gates(module)
    dims = {1: torch.export.Dim("steps", max=64)}
    library = ts.compile(module, (torch.randn(1, 5, INPUTS),), dynamic_shapes=(dims,))
    assert any(decision.dense_us for decision in library.decisions)
    x = torch.randn(1, 9, INPUTS)
    torch.testing.assert_close(library(x)[0], module(x)[0], rtol=1e-4, atol=1e-5)
