"""SplitBatch and CallParts: a large batch goes through the network in parts, or stays whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.machines import changed_machine, part_of
from tests.passes.modules import evaluate, module
from tests.random_networks import random_network
from tvm_sparse.passes.finish.call_parts import CallParts
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.shrink.split_batch import SplitBatch, parts_of
from tvm_sparse.report.html import render

R = relax.op
RNG = np.random.default_rng(0)
BATCH = 6


def const(*shape):
    return relax.const(RNG.standard_normal(shape).astype(np.float32))


SMALL = SplitBatch(limit=512)
"""Two items of 64 values fit."""


def parts(mod, limit=512):
    """Return how many parts ``main`` goes through."""
    return parts_of(SplitBatch(limit)(mod))


TOKEN = np.repeat(RNG.standard_normal((1, 1, 8)).astype(np.float32), BATCH, 0)
SPLIT = {
    "conv": ((4, 4, 4), lambda x: R.nn.conv2d(x, const(4, 4, 3, 3), padding=1)),
    "pool": ((4, 4, 4), lambda x: R.nn.max_pool2d(x, pool_size=2, strides=2)),
    "mean": ((4, 4, 4), lambda x: R.mean(x, axis=[2, 3])),
    "linear": ((8, 8), lambda x: R.add(R.matmul(x, const(8, 5)), const(5))),
    "attention": ((8, 8), lambda x: R.matmul(R.nn.softmax(x, axis=-1), x)),
    "norm": ((8, 8), lambda x: R.nn.layer_norm(x, const(8), const(8), axes=[-1])),
    "transpose": ((4, 4, 4), lambda x: R.permute_dims(x, [0, 3, 1, 2])),
    "reshape": ((4, 4, 4), lambda x: R.reshape(x, (BATCH, 64))),
    "concat": ((8, 8), lambda x: R.concat([x, R.nn.relu(x)], axis=-1)),
    "token": ((7, 8), lambda x: R.concat([relax.const(TOKEN), x], axis=1)),
    "slice": ((8, 8), lambda x: R.strided_slice(x, [1], [2], [6])),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", SPLIT)
def test_parts_joined_are_the_whole(name):
    shape, body = SPLIT[name]
    before = module(body, (BATCH, *shape))
    split = SMALL(before)
    count = 6 if name == "concat" else 3
    assert parts_of(split) == count
    assert [int(e) for e in split["main"].params[0].ty.shape] == [BATCH // count, *shape]
    weights: dict[str, np.ndarray] = {}
    after = CallParts()(LiftWeights(weights)(split))
    assert [int(e) for e in after["main"].params[0].ty.shape] == [BATCH, *shape]
    x = RNG.standard_normal((BATCH, *shape)).astype(np.float32)
    np.testing.assert_allclose(
        evaluate(after, x, *weights.values()), evaluate(before, x), rtol=1e-5, atol=1e-6
    )


MIXED = {
    "mean of all": lambda x: R.mean(x, axis=[0]),
    "mean of everything": R.mean,
    "softmax over the batch": lambda x: R.nn.softmax(x, axis=0),
    "batch merged": lambda x: R.reshape(x, (BATCH * 8, 8)),
    "batch moved": lambda x: R.permute_dims(x, [1, 0, 2]),
    "items joined": lambda x: R.concat([x, x], axis=0),
    "some items": lambda x: R.strided_slice(x, [0], [1], [3]),
    "its own constant": lambda x: R.add(x, const(BATCH, 8, 8)),
    "unknown operator": lambda x: R.flip(x, axis=0),
    "a matrix for each item": lambda x: R.matmul(x, const(BATCH, 8, 4)),
    "broadcast in front": lambda x: R.add(const(2, BATCH, 8, 8), x),
    "a result without input": lambda x: R.add(const(8), const(8)),
    "one such result of two": lambda x: relax.Tuple([R.nn.relu(x), const(8)]),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_items_stay_together(name):
    before = module(MIXED[name], (BATCH, 8, 8))
    tvm.ir.assert_structural_equal(SMALL(before), before)


def test_small_symbolic_and_plain_batches_stay_whole():
    body = SPLIT["linear"][1]
    assert parts(module(body, (BATCH, 8, 8)), 1 << 20) == 1, "fits"
    assert parts(module(body, (BATCH, 8, 8)), 1) == BATCH
    assert parts(module(body, (1, 8, 8)), 1) == 1
    assert parts(module(body, (256, 8, 8)), 1) == 64, "no more parts than that"
    assert parts(module(body, (257, 8, 8)), 1) == 1, "a prime number of items"
    assert parts(module(body, (64, 8)), 1) == 1, "rows of a matrix"
    assert parts(module(R.nn.relu, (tvm.tirx.Var("n", "int64"), 8, 8)), 1) == 1
    assert parts(module(R.add, (4, 8, 8), (1, 8, 8)), 1) == 1, "two extents"


@pytest.mark.parametrize(("layers", "count"), [(0, 1), (1, 1), (2, 1), (3, 6)])
def test_parts_are_worth_their_copies(layers, count):
    """Three layers of equal results hand on as much as is copied in and out."""

    def body(x):
        for _ in range(layers):
            x = R.nn.relu(R.nn.conv2d(x, const(4, 4, 3, 3), padding=1))
        return R.nn.relu(x)

    before = module(body, (BATCH, 4, 4, 4))
    assert parts_of(SplitBatch(limit=256, least=1.0)(before)) == count


def test_tokens_are_items():
    table = const(9, 8)
    before = module(lambda x: R.nn.relu(R.take(table, x, axis=0)), (BATCH, 5), dtype="int64")
    split = SMALL(before)
    assert parts_of(split) == 2, "three items of 40 values fit"
    weights: dict[str, np.ndarray] = {}
    after = CallParts()(LiftWeights(weights)(split))
    x = RNG.integers(0, 9, (BATCH, 5))
    np.testing.assert_array_equal(evaluate(after, x, *weights.values()), evaluate(before, x))
    rows = module(lambda x: R.take(x, relax.const([1, 0]), axis=0), (BATCH, 8, 8))
    assert parts(rows) == 1, "places within the batch"


class _Two(nn.Module):
    """Two inputs and two outputs, one of them an input's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.conv(x)) + y, self.conv(y).mean((2, 3))


@pytest.fixture
def one_item():
    """One item of a batch makes a part."""
    with changed_machine(caches=part_of(1)):
        yield


def test_several_inputs_and_outputs():
    torch.manual_seed(0)
    model, inputs = _Two().eval(), (torch.randn(6, 16, 5, 5), torch.randn(6, 16, 5, 5))
    with changed_machine(caches=part_of(2 * 4 * 16 * 25)):
        library = ts.compile(model, inputs, config=ts.Config(measure=False))
    for got, expected in zip(library(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, expected.detach(), rtol=1e-4, atol=1e-5)
    kernels = library.profile(*inputs, repeat=2)
    names = [k.function for k in kernels]
    assert [n.startswith("take_part") for n in names].count(True) == 2
    assert [n.startswith("join_parts") for n in names].count(True) == 2
    assert all(k.us > 0 for k in kernels)
    assert library.decisions.parts == 3
    assert "in 3 parts" in render(library, kernels)
    assert [k.layer for k in kernels if k.layer] == ["conv", "conv"]


@pytest.mark.grid
@pytest.mark.parametrize("seed", range(3))
def test_random_networks_in_parts(seed, one_item):
    model, x = random_network(seed)
    x = torch.cat([x, x.flip(0) + 0.25, x * 0.5])[:3]
    with torch.no_grad():
        expected = model.double()(x.double())
    model.float()
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    assert any(k.function.startswith("take_part") for k in library.kernels) == (len(x) > 1)
    error = float((library(x).double() - expected).abs().max())
    assert error <= 1e-5 * max(1e-3, float(expected.abs().max()))


def test_exported_program_in_parts(one_item, tmp_path):
    import tvm_sparse_runtime

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU()).eval(), torch.randn(5, 3, 8, 8)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    loaded = tvm_sparse_runtime.load(library.export(tmp_path / "a.tvms"))
    expected = model(x).detach().numpy()
    np.testing.assert_allclose(loaded(x.numpy()), expected, rtol=1e-4, atol=1e-5)
