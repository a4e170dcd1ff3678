"""The rule for convolutions on planes inside compiled modules, and where the graph wants them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.schedules.layers import assert_like_torch, prune
from tvm_sparse.schedules.cpu import planes


def rules(library):
    return [k.rule for k in library.kernels if k.rule != "Generic"]


def pruned(*options, layer=nn.Conv2d, **more):
    found = layer(*options, **more)
    found.weight.data *= torch.rand(found.weight.shape) > 0.7
    return found


@pytest.mark.grid
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("batch", [1, 3])
def test_nothing_is_transposed(stride, batch):
    model = nn.Sequential(pruned(64, 96, 3, stride, 1, groups=4), nn.ReLU())
    library = assert_like_torch(model, torch.randn(batch, 64, 14, 13), "unstructured")
    assert [k.rule for k in library.kernels] == ["Planes"]


def test_sequences_and_volumes():
    model = pruned(64, 64, 3, groups=16, layer=nn.Conv1d)
    assert rules(assert_like_torch(model, torch.randn(1, 64, 50), "unstructured")) == ["Planes"]
    model = pruned(32, 32, 3, padding=1, groups=2, layer=nn.Conv3d)
    x = torch.randn(1, 32, 3, 5, 18)
    assert rules(assert_like_torch(model, x, "unstructured")) == ["Planes"]


def test_groups_without_whole_vectors():
    model = pruned(240, 60, 1, groups=3)
    x = torch.randn(1, 240, 7, 9)
    assert rules(assert_like_torch(model, x, "unstructured")) == ["Planes"]


def test_neighbours_that_are_channels_last_keep_shifts():
    model = nn.Sequential(nn.Conv2d(16, 64, 1), pruned(64, 64, 3, groups=4), nn.Conv2d(64, 32, 1))
    library = assert_like_torch(model, torch.randn(1, 16, 14, 14), "unstructured")
    assert "Planes" not in rules(library)
    assert "ShiftedRows" in rules(library)


class Twice(nn.Module):
    """A grouped convolution whose result is read channels first and channels last."""

    def __init__(self):
        super().__init__()
        self.grouped, self.after = pruned(64, 64, 3, padding=1, groups=4), nn.Conv2d(64, 64, 1)

    def forward(self, x):
        """Return the sum of both."""
        y = self.grouped(x)
        return y + self.after(y)


def test_results_that_are_read_twice():
    library = assert_like_torch(Twice(), torch.randn(1, 64, 9, 9), "unstructured")
    assert "Planes" not in rules(library)


def test_shared_weights():
    layer = pruned(64, 64, 3, padding=1, groups=4)
    model = nn.Sequential(layer, nn.Softmax(1), layer)
    assert_like_torch(model, torch.randn(1, 64, 9, 9), "unstructured")


def test_a_symbolic_batch_is_no_plane():
    model, x = pruned(64, 64, 3, padding=1, groups=4).eval(), torch.randn(2, 64, 9, 9)
    library = ts.compile(ts.load(model, (x,), dynamic_batch=True), config=ts.Config(measure=False))
    for batch in (1, 3):
        x = torch.randn(batch, 64, 9, 9)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
    assert "Planes" not in rules(library)


def test_planes_on_threads():
    model = nn.Conv2d(64, 128, 3, padding=1, groups=4)
    prune(model, 1, 1, 0.5)
    assert_like_torch(model, torch.randn(1, 64, 30, 30), "unstructured")


def test_rows_of_whole_vectors_are_stored_in_vectors():
    assert [planes._lanes(n) for n in (400, 64, 56, 14, 1000, 7)] == [16, 64, 56, 14, 50, 7]
