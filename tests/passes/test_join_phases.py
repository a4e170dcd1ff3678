"""JoinPhases: pruned convolutions of one tensor, side by side, are one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.base.notes import Notes
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.passes.shrink.join_phases import JoinPhases

X = (2, 9, 32)
CONFIG = ts.Config(measure=False, cache=False, tuned=False)


def weight(taps, *, sparsity=0.8, features=16, seed=0):
    rng = np.random.default_rng(seed)
    shape = (features, taps, X[-1])
    kept = rng.random(shape) >= sparsity
    return constant((rng.integers(1, 5, shape) * kept).astype(np.float32), f"up.weight[{seed}]")


def convolution(x, w, before, after, **options):
    layouts = {"data_layout": "NWC", "kernel_layout": "OWI"}
    return relax.op.nn.conv1d(x, w, padding=[before, after], **options, **layouts)


def cut(x, begin, end):
    return relax.op.strided_slice(x, [1], [begin], [end])


def concat(*parts, axis=-1):
    return relax.op.concat(list(parts), axis=axis)


def phases(x):
    return concat(
        convolution(x, weight(2), 1, 0),
        convolution(x, weight(2, seed=1), 0, 1),
        convolution(x, weight(3, seed=2), 1, 1),
    )


JOINED = {
    "phases": phases,
    "a slice": lambda x: concat(
        convolution(cut(x, 1, 9), weight(1), 0, 1), convolution(x, weight(2, seed=1), 1, 0)
    ),
}
APART = {
    "dense": lambda x: concat(
        convolution(x, weight(2, sparsity=0.5), 1, 0), convolution(x, weight(2, seed=1), 0, 1)
    ),
    "strides": lambda x: concat(
        convolution(x, weight(3), 1, 1, strides=2),
        convolution(x, weight(3, seed=1), 1, 1, strides=2),
    ),
    "other inputs": lambda x: concat(
        convolution(relax.op.nn.relu(x), weight(2), 1, 0), convolution(x, weight(2, seed=1), 0, 1)
    ),
    "another axis": lambda x: concat(
        convolution(x, weight(2), 1, 0), convolution(x, weight(2, seed=1), 0, 1), axis=1
    ),
    "cropped": lambda x: concat(
        convolution(cut(x, 2, 9), weight(1), 0, 0), convolution(cut(x, 1, 8), weight(1), 0, 0)
    ),
}


def same_values(before, after):
    x = np.random.default_rng(3).integers(-4, 5, X).astype(np.float32)
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))


@pytest.mark.grid
@pytest.mark.parametrize("name", JOINED)
def test_joined(name):
    before, notes = module(JOINED[name], X), Notes()
    after = JoinPhases(notes)(before)
    found = operators(after)
    assert (found["nn.conv1d"], found.get("concat", 0)) == (1, 0)
    assert "convolutions of one tensor as features of one" in notes.of("up")
    same_values(before, after)


@pytest.mark.parametrize("name", APART)
def test_apart(name):
    before, notes = module(APART[name], X), Notes()
    after = JoinPhases(notes)(before)
    assert operators(after) == operators(before)
    assert not notes


def test_zeros_with_a_pattern_stay_in_it():
    value = np.zeros((16, 2, X[-1]), np.float32)
    value[..., :8] = 1
    parts = [constant(value), constant(value)]
    before = module(
        lambda x: concat(convolution(x, parts[0], 1, 0), convolution(x, parts[1], 0, 1)), X
    )
    assert operators(JoinPhases()(before))["nn.conv1d"] == 2


@pytest.mark.grid
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "padding", "beyond"), [(4, 1, 0), (3, 1, 1), (2, 0, 0)])
def test_a_pruned_transposed_convolution_is_one_layer(rank, kernel, padding, beyond):
    layer = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 1](
        32, 16, kernel, 2, padding, beyond
    )
    torch.manual_seed(0)
    model = nn.Sequential(layer, nn.ReLU()).eval()
    with torch.no_grad():
        layer.weight.masked_fill_(torch.rand(layer.weight.shape) < 0.8, 0)
        x = torch.randn(1, 32, 6, 7, 5)[(..., *[0] * (3 - rank))]
        expected = model(x)
    library = ts.compile(model, (x,), config=CONFIG)
    torch.testing.assert_close(library(x), expected)
    (decision,) = library.decisions
    assert decision.layer == "0"
    assert decision.chosen != "dense"
    forced = ts.compile(model, (x,), config=replace(CONFIG, force={"*": "dense"}))
    phases = 1 if kernel == 2 else 2**rank  # dense, the zeros of a wider window would cost
    assert len([*forced.decisions]) == phases
