"""What is offered for unstructured zeros, and how the model ranks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from tvm import tirx
from tvm.target import Target

import tvm_sparse as ts
from tests.kernels import host, integers
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidates import dense_candidates
from tvm_sparse.selection.covers import Cover
from tvm_sparse.selection.cpu.compressed_rows import (
    batch_vectors,
    rows_penalty,
    unstructured_candidates,
)


def offered(contraction, sparsity):
    matrix = integers(np.random.default_rng(0), contraction.matrix_shape, sparsity)
    return matrix, list(unstructured_candidates(contraction, Scan(matrix), host()))


def test_exactly_the_nonzeros_are_kept():
    matrix, (candidate,) = offered(Contraction((128,), 96, 80), 0.8)
    assert candidate.name == "unstructured"
    assert candidate.format.entries == np.count_nonzero(matrix)
    assert candidate.work == np.count_nonzero(matrix) / matrix.size


def test_columns_stay_in_the_first_level_cache_while_rows_are_long():
    _, (long,) = offered(Contraction((128,), 2048, 64), 0.5)
    _, (short,) = offered(Contraction((128,), 2048, 64), 0.85)
    _, (shortest,) = offered(Contraction((128,), 2048, 64), 0.95)
    assert [c.format.tile_cols for c in (long, short, shortest)] == [128, 256, 1024]


def test_few_columns_are_refused_with_the_reason():
    _, (reason,) = offered(Contraction((8,), 12, 32), 0.8)
    assert reason == "unstructured needs 16 columns a tap, found 12"


def test_groups_are_multiplied_by_shifts():
    shape = (1, 14, 14), 32, 64, (3, 3), (1, 1), (1, 1), (16, 16)
    matrix, (candidate,) = offered(Contraction(*shape, groups=2), 0.8)
    assert isinstance(candidate.format, ShiftedRowsFormat)
    assert candidate.format.inner.entries == np.count_nonzero(matrix)
    assert candidate.cost < 0.75


@pytest.mark.parametrize(
    "features, taps, stride, shifted",
    [
        (1, 3, 1, True),
        (8, 3, 1, True),
        (16, 3, 1, True),
        (16, 1, 1, False),
        (16, 3, 2, False),
        (24, 3, 1, False),
        (32, 3, 1, False),
    ],
)
def test_few_features_are_multiplied_by_shifts(features, taps, stride, shifted):
    padded = (13 * stride + taps,) * 2
    shape = (1, 14, 14), 64, features, (taps, taps), (stride, stride), (1, 1), padded
    _, (candidate,) = offered(Contraction(*shape), 0.75)
    assert isinstance(candidate.format, ShiftedRowsFormat) is shifted


def test_few_channels_are_multiplied_by_shifts_where_features_are_few():
    shape = (1, 60, 60), 8, 8, (3, 3), (1, 1), (1, 1), (62, 62)
    _, (candidate,) = offered(Contraction(*shape), 0.75)
    assert isinstance(candidate.format, ShiftedRowsFormat)
    _, (reason,) = offered(replace(Contraction(*shape), features=24), 0.75)
    assert reason == "unstructured needs 16 columns a tap, found 8"


@pytest.mark.parametrize(
    ("features", "taps", "guarded", "offered"),
    [(1, 5, False, True), (16, 5, False, False), (1, 1, False, False), (1, 5, True, False)],
)
def test_few_features_without_zeros_may_be_shifted(features, taps, guarded, offered):
    shape = (1, 60, 60), 8, features, (taps, taps), (1, 1), (1, 1), (60 + taps - 1,) * 2
    found = dense_candidates(replace(Contraction(*shape), guarded=guarded), host())
    assert ("shifts" in [candidate.name for candidate in found]) == offered


@pytest.mark.parametrize("groups", [1, 2])
def test_an_open_batch_is_shifted(groups):
    batch, plane = tirx.Var("n", "int64"), (28, 28)
    shape = (batch, *plane), 32, 16 * groups, (3, 3), (1, 1), (1, 1), (30, 30)
    _, (candidate,) = offered(Contraction(*shape, groups=groups), 0.75)
    assert isinstance(candidate.format, ShiftedRowsFormat)


def test_several_open_axes_of_groups_are_refused_with_the_reason():
    high, wide = tirx.Var("h", "int64"), tirx.Var("w", "int64")
    shape = (1, high, wide), 32, 64, (3, 3), (1, 1), (1, 1), (high + 2, wide + 2)
    _, (reason,) = offered(Contraction(*shape, groups=2), 0.8)
    assert reason == "unstructured needs at most one open axis where a convolution has groups"


def test_small_batches_leave_lanes_idle():
    cover = Cover(1, 1, 0.1)
    wide = rows_penalty(Contraction((128,), 512, 512), cover, 1, host())
    assert rows_penalty(Contraction((2,), 512, 512), cover, 1, host()) == 8 * wide
    assert rows_penalty(Contraction((128,), 512, 512), cover, 4, host()) < wide
    assert rows_penalty(Contraction((128,), 512, 512), Cover(8, 1, 0.1), 1, host()) < wide


@pytest.mark.parametrize(
    ("rows", "group", "share", "cores", "vectors"),
    [
        (128, 1, 0.5, 1, 4),
        (128, 1, 0.5, 8, 1),
        (16, 1, 0.5, 1, 1),
        (48, 1, 0.5, 1, 3),
        (128, 1, 0.05, 1, 2),
        (128, 4, 0.5, 1, 1),
        (128, 2, 0.05, 2, 4),
    ],
)
def test_vectors_of_the_batch(rows, group, share, cores, vectors):
    target = Target({"kind": "llvm", "num-cores": cores})
    cover = Cover(group, 1, share)
    assert batch_vectors(Contraction((rows,), 64, 64), cover, target) == vectors


@pytest.mark.grid
@pytest.mark.parametrize(("image", "vectors"), [((16, 17), 1), ((16, 16), 4), ((15, 17), 4)])
def test_vectors_of_a_symbolic_number_of_images(image, vectors):
    """TVM proves that tiles cover all rows only where it divides or shares no factor."""
    symbolic = Contraction((tirx.Var("n", "int64"), *image), 64, 32, (1, 1), (1, 1), (1, 1), image)
    cover = Cover(1, 1, 0.2)
    assert batch_vectors(symbolic, cover, Target({"kind": "llvm", "num-cores": 1})) == vectors
    layer = nn.Conv2d(64, 32, 1).eval()
    with torch.no_grad():
        layer.weight *= torch.rand(layer.weight.shape) < 0.1
    x = torch.randn(2, 64, *image)
    library = ts.compile(
        ts.load(layer, (x,), dynamic_batch=True),
        config=ts.Config(measure=False, force={"*": "unstructured"}),
    )
    for count in (1, 3):
        x = torch.randn(count, 64, *image)
        torch.testing.assert_close(library(x), layer(x), rtol=1e-5, atol=1e-5)


class Head(nn.Module):
    """A head of one feature, as those that say what each pixel is."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 32, 3, padding=1)
        self.head = nn.Conv2d(32, 1, 5, padding=2)

    def forward(self, x):
        return torch.sigmoid(self.head(torch.relu(self.body(x))))


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("zeros", [False, True])
def test_a_head_of_one_feature_is_shifted(monkeypatch, threads, zeros):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    torch.manual_seed(0)
    model, x = Head().eval(), torch.randn(2, 3, 60, 52)
    if zeros:
        model.head.weight.data *= torch.rand_like(model.head.weight) < 0.3
    force = {"head*": "unstructured" if zeros else "shifts"}
    library = ts.compile(model, (x,), config=ts.Config(measure=False, force=force))
    assert [d.chosen for d in library.decisions][-1] == force["head*"]
    torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)
