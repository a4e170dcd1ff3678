"""GroupProducts and MergePermutes: batches of pruned matrices reach operators of groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.base.notes import Notes
from tvm_sparse.passes.canonical.simplify import Simplify
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.passes.lower.merge_permutes import MergePermutes
from tvm_sparse.passes.shrink.group_products import GroupProducts

RNG = np.random.default_rng(0)


def matrices(*shape, zeros=0.75):
    values = RNG.integers(-4, 5, shape).astype(np.float32)
    return np.where(RNG.random(shape) < zeros, 0, values).astype(np.float32)


def integers(shape):
    return RNG.integers(-4, 5, shape).astype(np.float32)


def product(weight, shape):
    return module(lambda x: relax.op.matmul(x, constant(weight, "w")), shape)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("shape", "weight"),
    [
        ((3, 5, 96), (3, 96, 64)),
        ((2, 3, 5, 64), (3, 64, 96)),
        ((2, 3, 5, 96), (2, 3, 96, 64)),
        ((3, 1, 8), (3, 8, 16)),  # one row of each item: nothing is moved
    ],
)
def test_batches_become_groups(shape, weight):
    before = product(matrices(*weight), shape)
    notes = Notes()
    after = GroupProducts(notes)(before)
    x = integers(shape)
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))
    assert operators(after)["nn.conv1d"] == 1
    assert "matmul" not in operators(after)
    assert f"{np.prod(weight[:-2])} matrices" in notes.of("w")


@pytest.mark.parametrize(
    ("shape", "weight"),
    [
        ((3, 5, 96), matrices(3, 96, 64, zeros=0.3)),  # few zeros
        ((3, 5, 96), matrices(3, 96, 68)),  # vectors would meet two matrices
        ((1, 5, 96), matrices(3, 96, 64)),  # all meet the same rows
        ((5, 96), matrices(3, 96, 64)),
        ((3, 5, 64), matrices(3, 64, 64)),  # moves would take longer than what zeros save
        ((5, 8), matrices(8, 16)),
    ],
)
def test_others_stay(shape, weight):
    assert operators(GroupProducts()(product(weight, shape))) == {"matmul": 1}


@pytest.mark.grid
@pytest.mark.parametrize("shape", [(1, 5, 8), (5, 8), (2, 5, 8), (8,), (2, 1, 5, 8)])
def test_a_batch_of_one_matrix_is_a_linear_layer(shape):
    before = product(matrices(1, 8, 16), shape)
    after = Simplify()(before)
    x = integers(shape)
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))
    assert evaluate(after, x).shape == evaluate(before, x).shape
    found = []
    relax.analysis.post_order_visit(
        after["main"].body,
        lambda e: found.append(e) if getattr(getattr(e, "op", 0), "name", "") else None,
    )
    products = [call for call in found if call.op.name == "relax.matmul"]
    assert [len(call.args[1].ty.shape) for call in products] == [2]


CHAINS = {
    "taken back": ((2, 3, 4), [(2, 0, 1), (1, 2, 0)], 0),
    "through a reshape": ((2, 3, 4), [(2, 0, 1), (4, 6), (1, 0)], 0),
    "another order": ((2, 3, 4), [(2, 0, 1), (4, 3, 2), (0, 2, 1)], 2),
    "one": ((2, 3), [(1, 0)], 1),
}


@pytest.mark.parametrize("name", CHAINS)
def test_transpositions_that_are_taken_back_go(name):
    shape, steps, left = CHAINS[name]

    def body(x):
        for step in steps:
            if sorted(step) == list(range(len(step))):
                x = relax.op.permute_dims(x, step)
            else:
                x = relax.op.reshape(x, step)
        return x

    before = module(body, shape)
    after = MergePermutes()(before)
    x = integers(shape)
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))
    assert operators(after).get("permute_dims", 0) == left


class Product(torch.nn.Module):
    def __init__(self, formula, *shape):
        super().__init__()
        self.formula, self.weight = formula, torch.nn.Parameter(torch.tensor(matrices(*shape)))

    def forward(self, x):
        return self.formula(x, self.weight)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("formula", "weight", "shape"),
    [
        (torch.bmm, (4, 64, 96), (4, 33, 64)),
        (lambda x, w: torch.einsum("nk,mk->nm", x, w), (64, 64), (33, 64)),
        (lambda x, w: torch.einsum("bld,hde->blhe", x, w), (4, 64, 16), (2, 33, 64)),
        (lambda x, w: torch.einsum("blhd,hde->blhe", x, w), (4, 64, 96), (2, 33, 4, 64)),
        (torch.matmul, (1, 64, 64), (64,)),
    ],
)
def test_products_with_pruned_constants_have_formats(formula, weight, shape):
    model, x = Product(formula, *weight).eval(), torch.tensor(integers(shape))
    library = ts.compile(model, (x,), target="cpu", config=ts.Config(measure=False))
    (decision,) = library.decisions
    assert decision.chosen != "dense"
    assert torch.equal(library(x), model(x))
