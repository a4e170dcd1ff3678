"""Recurrent layers in a graph: written as a call and read again, unrolled, or left whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import relax, tirx

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.frontends.converters.recurrences import recurrence
from tvm_sparse.ops.contractions.cells import CELLS
from tvm_sparse.passes.graph.recurrences import Recurrent, recurrent_of
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.passes.lower.unroll_recurrences import UnrollRecurrences

BATCH, STEPS, HIDDEN = 2, 3, 5
FLAGS = ("reverse", "batch_first", "rounded")
OPTIONS = [(False, False, False), (True, False, True), (False, True, True), (True, True, False)]


def layer(cell, weight, *, biased, batch=BATCH, other=BATCH, **options):
    """Return ``main(gates, *states[, bias], other)`` of one layer, and the shapes of all but that.

    The other input has the symbol of a symbolic batch.
    """
    gates = len(CELLS[cell].gates) * HIDDEN
    lead = (batch, STEPS) if options.get("batch_first") else (STEPS, batch)
    shapes = [(*lead, gates), *[(batch, HIDDEN)] * CELLS[cell].states, *[(gates,)] * biased]

    def body(x, *rest):
        states, bias = rest[: CELLS[cell].states], rest[CELLS[cell].states : -1]
        given = (cell, x, constant(weight, "w"), list(states), *(bias or (None,)))
        return Recurrent(*given, **options).call()

    return module(body, *shapes, (other,)), shapes


def weight_of(cell):
    return (
        np.random.default_rng(0)
        .normal(0, 0.3, (len(CELLS[cell].gates) * HIDDEN, HIDDEN))
        .astype(np.float32)
    )


@pytest.mark.grid
@pytest.mark.parametrize("cell", sorted(CELLS))
def test_unrolled_layers_compute_what_the_operator_does(cell):
    weight, rng = weight_of(cell), np.random.default_rng(1)
    for flags in OPTIONS[: 4 if cell == "lstm" else 2]:
        options = dict(zip(FLAGS, flags, strict=True))
        before, shapes = layer(cell, weight, biased=flags[0], **options)
        after = UnrollRecurrences(whole=False)(before)
        assert "call_pure_packed" not in operators(after)
        given = [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]
        x, *rest = map(torch.from_numpy, given)
        bias = rest.pop() if flags[0] else None
        wanted = recurrence(x, torch.from_numpy(weight), rest, bias, cell, *flags)
        found = evaluate(after, *given, np.zeros(BATCH, np.float32))
        assert len(found) == len(wanted)
        for got, exact in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, exact, atol=1e-6)


def test_layers_of_constant_weights_stay_whole():
    before, _ = layer("gru", weight_of("gru"), biased=True)
    after = UnrollRecurrences(whole=True)(before)
    assert operators(after) == operators(before)
    (call,) = [b.value for b in after["main"].body.blocks[0].bindings if recurrent_of(b.value)]
    found = recurrent_of(call)
    assert (found.cell, found.reverse, found.batch_first) == ("gru", False, False)
    assert found.bias is not None
    assert found.record.product.matrix_shape == (3 * HIDDEN, HIDDEN)


@pytest.mark.parametrize(
    "batch", [lambda n: n, lambda n: 2 * n, lambda n: (n + 1) // 4], ids=["n", "2n", "(n+1)//4"]
)
def test_open_batches_stay_whole(batch):
    n = tirx.Var("n", "int64")
    for rounded in (False, True):
        options = {"biased": False, "batch": batch(n), "other": n, "rounded": rounded}
        kept, _ = layer("lstm", weight_of("lstm"), **options)
        assert operators(UnrollRecurrences(whole=True)(kept)) == operators(kept)


def test_other_calls_are_none():
    x = relax.Var("x", relax.TensorType((1,), "float32"))
    call = relax.op.call_pure_packed("tvm_sparse.recurrences lstm", x, ty_args=x.ty)
    assert recurrent_of(call) is None
    assert recurrent_of(relax.op.tanh(x)) is None
