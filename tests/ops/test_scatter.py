"""Rows and elements that go to places that are data: in order, and never outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module
from tvm_sparse.passes.lower.lower_lines import LowerLines

COMBINE = {
    "update": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def expected(x, places, updates, axis, reduction):
    """Combine row by row, in order; wild places change nothing."""
    found, extent = np.moveaxis(x, axis, 0).copy(), x.shape[axis]
    moved = np.moveaxis(updates, axis, 0)
    for k, place in enumerate(places):
        if -extent <= place < extent:
            found[place] = COMBINE[reduction](found[place], moved[k])
    return np.moveaxis(found, 0, axis)


def scattered(x, places, updates, axis, reduction):
    """Return what compiled code makes of rows at ``places``, which are repeated in the graph."""
    view = [1] * x.ndim
    view[axis] = len(places)

    def body(x, u):
        index = relax.const(places.reshape(view))
        repeated = relax.op.broadcast_to(index, updates.shape)
        return relax.op.scatter_elements(x, repeated, u, axis, reduction)

    return evaluate(LowerLines()(module(body, x.shape, updates.shape)), x, updates)


@settings(max_examples=8)
@given(st.data())
def test_rows(data):
    width = data.draw(st.sampled_from([1, 2, 7, 16, 33, 64, 71, 130]))
    shape = [data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6)), width]
    axis, count = data.draw(st.integers(0, 1)), data.draw(st.integers(1, 9))
    extent = shape[axis]
    places = data.draw(
        st.lists(st.integers(-extent - 2, extent + 1), min_size=count, max_size=count)
    )
    reduction = data.draw(st.sampled_from([*COMBINE]))
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(np.float32)
    updates = rng.integers(-3, 4, [count if i == axis else e for i, e in enumerate(shape)])
    given_ = (x, np.array(places, np.int64), updates.astype(np.float32), axis, reduction)
    np.testing.assert_array_equal(scattered(*given_), expected(*given_))


def test_additions_keep_their_order():
    """In another order the small ones would be lost, or not."""
    updates = np.array([[2.0**24], [1.0], [-(2.0**24)], [1.0]], np.float32).repeat(20, 1)
    given_ = (np.zeros((3, 20), np.float32), np.array([1, 1, 1, 1]), updates, 0, "add")
    found = scattered(*given_)
    assert (found[1] == 1).all() and not found[[0, 2]].any()


class Graph(nn.Module):
    """A layer over edges, as libraries for graphs write it."""

    def __init__(self, combine) -> None:
        super().__init__()
        self.combine, self.layer = combine, nn.Linear(16, 24)

    def forward(self, x, edges, weight):
        rows = self.layer(x)
        return self.combine(rows, edges, rows[edges[0]] * weight[:, None])


def _index(edges, rows):
    return edges[1].unsqueeze(-1).expand_as(rows)


WAYS = {
    "index_add": lambda h, e, m: torch.zeros_like(h).index_add(0, e[1], m),
    "scatter_add": lambda h, e, m: torch.zeros_like(h).scatter_add(0, _index(e, m), m),
    "mean": lambda h, e, m: torch.zeros_like(h).scatter_reduce(
        0, _index(e, m), m, "mean", include_self=False
    ),
    "max": lambda h, e, m: h.scatter_reduce(0, _index(e, m), m, "amax"),
    "index_put": lambda h, e, m: torch.zeros_like(h).index_put((e[1],), m, accumulate=True),
    "softmax": lambda h, e, m: torch.exp(
        m - torch.zeros_like(h).scatter_reduce(0, _index(e, m), m, "amax").gather(0, _index(e, m))
    ),
}


@pytest.mark.grid
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_open", [False, True])
def test_layers_of_graphs(way, is_open):
    torch.manual_seed(0)
    model, edges = Graph(WAYS[way]).eval(), torch.randint(0, 9, (2, 40))
    x, weight = torch.randn(9, 16), torch.rand(40)
    count = torch.export.Dim("edges", min=2, max=200)
    shapes = (None, {1: count}, {0: count}) if is_open else None
    config = ts.Config(measure=False)
    library = ts.compile(model, (x, edges, weight), dynamic_shapes=shapes, config=config)
    # Indices are not written out for each element.
    assert not any("broadcast" in kernel.function for kernel in library.kernels)
    with torch.no_grad():
        torch.testing.assert_close(library(x, edges, weight), model(x, edges, weight))
