"""SplitOpenBatch and CallItems: an open batch goes through the network item by item, or whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax, tirx

import tvm_sparse as ts
from tests.machines import changed_machine
from tests.passes.modules import evaluate, module
from tvm_sparse.machine.record import Caches
from tvm_sparse.passes.finish.call_items import CallItems
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.shrink.split_batch import EACH, parts_of
from tvm_sparse.passes.shrink.split_open_batch import SplitOpenBatch
from tvm_sparse.report.html import render
from tvm_sparse_runtime import load

R = relax.op
RNG = np.random.default_rng(0)
N = tirx.Var("n", "int64")
SPLIT = SplitOpenBatch(limit=1, least=-9.0)
CONFIG = ts.Config(measure=False)


def const(*shape):
    return relax.const(RNG.standard_normal(shape).astype(np.float32))


SEPARATE = {
    "conv": ((4, 4, 4), lambda x: R.nn.conv2d(x, const(4, 4, 3, 3), padding=1)),
    "mean": ((4, 4, 4), lambda x: R.mean(x, axis=[2, 3])),
    "linear": ((8, 8), lambda x: R.add(R.matmul(x, const(8, 5)), const(5))),
    "attention": ((8, 8), lambda x: R.matmul(R.nn.softmax(x, axis=-1), x)),
    "reshape": ((4, 4, 4), lambda x: R.reshape(x, (N, 64))),
    "concat": ((8, 8), lambda x: R.concat([x, R.nn.relu(x)], axis=-1)),
    "two": ((8, 8), lambda x: relax.Tuple([R.nn.relu(x), R.mean(x, axis=[1])])),
    "odd": ((3, 5), R.nn.relu),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", SEPARATE)
def test_items_joined_are_the_whole(name):
    shape, body = SEPARATE[name]
    before = module(body, (N, *shape)).with_attr("some", 1)
    split = SPLIT(before)
    assert parts_of(split) == EACH
    assert [int(e) for e in split["main"].params[0].ty.shape] == [1, *shape]
    weights: dict[str, np.ndarray] = {}
    after = CallItems()(LiftWeights(weights)(split))
    for batch in (0, 1, 2, 3, 7):
        x = RNG.standard_normal((batch, *shape)).astype(np.float32)
        found, wanted = evaluate(after, x, *weights.values()), evaluate(before, x)
        several = isinstance(wanted, list)
        for one, other in zip(*((found, wanted) if several else ([found], [wanted])), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


MIXED = {
    "mean of all": lambda x: R.mean(x, axis=[0]),
    "batch merged": lambda x: R.reshape(x, (N * 8, 8)),
    "batch moved": lambda x: R.permute_dims(x, [1, 0, 2]),
    "unknown operator": lambda x: R.flip(x, axis=0),
    "its number": lambda x: R.add(x, R.full((N, 8, 8), relax.const(2.0))),
    "as many rows of zeros": lambda x: R.matmul(R.zeros((8, N), "float32"), R.mean(x, axis=[1])),
    "a result without input": lambda x: R.add(const(8), const(8)),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_items_stay_together(name):
    before = module(MIXED[name], (N, 8, 8))
    tvm.ir.assert_structural_equal(SPLIT(before), before)


def test_batches_that_are_left_alone():
    body, other = SEPARATE["linear"][1], tirx.Var("m", "int64")
    assert parts_of(SplitOpenBatch(limit=257)(module(body, (N, 8, 8)))) == 1, "few bytes"
    assert parts_of(SplitOpenBatch(limit=256)(module(body, (N, 8, 8)))) == EACH
    assert parts_of(SplitOpenBatch(1, least=9.0)(module(body, (N, 8, 8)))) == 1, "copies"
    assert parts_of(SPLIT(module(R.nn.relu, (N, other, 8)))) == 1, "another open extent"
    assert parts_of(SPLIT(module(R.nn.relu, (3, N, 8)))) == 1, "no batch"
    assert parts_of(SPLIT(module(R.nn.relu, (N, 8)))) == 1, "rows"
    assert parts_of(SPLIT(module(R.add, (N, 8, 8), (3, 8, 8)))) == 1, "two extents"


class Two(nn.Module):
    """Two inputs and two outputs."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x, y):
        return torch.relu(self.conv(x)) + y, self.conv(y).mean((2, 3))


@pytest.fixture(scope="module")
def library():
    torch.manual_seed(0)
    model, shape = Two().eval().requires_grad_(False), {0: torch.export.Dim("n", max=40)}
    inputs = torch.randn(3, 16, 5, 5), torch.randn(3, 16, 5, 5)
    with changed_machine(caches=Caches(near=64)):
        return model, ts.compile(model, inputs, dynamic_shapes=(shape, shape), config=CONFIG)


@pytest.mark.parametrize("batch", [1, 2, 5, 40])
def test_several_inputs_and_outputs(library, batch):
    model, compiled = library
    inputs = torch.randn(batch, 16, 5, 5), torch.randn(batch, 16, 5, 5)
    for got, expected in zip(compiled(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_what_reports_say(library):
    inputs = torch.randn(3, 16, 5, 5), torch.randn(3, 16, 5, 5)
    kernels = library[1].profile(*inputs, repeat=2)
    names = [k.function for k in kernels]
    assert [n.startswith("take_part") for n in names].count(True) == 2
    assert [n.startswith("put_part") for n in names].count(True) == 2
    assert all(k.us > 0 for k in kernels)
    assert [k.layer for k in kernels if k.layer] == ["conv", "conv"]
    assert library[1].decisions.parts == EACH
    assert "item by item" in render(library[1], kernels)


def test_the_exported_program(library, tmp_path):
    model, compiled = library
    loaded = load(compiled.export(tmp_path / "a.tvms"))
    inputs = torch.randn(4, 16, 5, 5), torch.randn(4, 16, 5, 5)
    for got, expected in zip(loaded(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
