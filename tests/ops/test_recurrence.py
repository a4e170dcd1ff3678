"""A recurrent layer as one function, around the product of any format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers
from tvm_sparse.base.numerics import FLOAT32, INTEGERS
from tvm_sparse.frontends.converters.recurrences import recurrence as expected
from tvm_sparse.ops.contractions.cells import CELLS
from tvm_sparse.ops.contractions.recurrence import Recurrence, recurrence
from tvm_sparse.patterns.analysis import Analysis
from tvm_sparse.schedules.build import build_scheduled, scheduled
from tvm_sparse.selection.candidates import dense_candidate, sparse_candidates

SCALE = 2.0**-6
"""Keeps states of sigmoids and hyperbolic tangents away from where they are flat."""


def candidates(r: Recurrence, weight: np.ndarray):
    """Return every format of the state's product, by its name."""
    scan = Analysis(weight).scan("hwi")
    sparse = [c for c in sparse_candidates(r.product, scan, host()) if not isinstance(c, str)]
    return {c.name: c for c in (dense_candidate(r.product, host()), *sparse)}


def operands(r: Recurrence, rng: np.random.Generator):
    """Return small integers for inputs, bias and states."""
    shapes = [r.sequence_shape(r.gates), *[(r.gates,)] * r.bias]
    shapes += [r.state_shape] * CELLS[r.cell].states
    return [integers(rng, shape) for shape in shapes]


def run(r: Recurrence, candidate, weight, given, meaning=()):
    """Return what the compiled function gives for inputs, bias and states.

    ``meaning`` are the steps of integers and their sums.
    """
    gates, *rest = given
    states = CELLS[r.cell].states
    func = recurrence(r, candidate.func)
    built = build_scheduled(scheduled(func, host()), host())
    shapes = [r.sequence_shape(r.hidden), *[r.state_shape] * (states - 1)]
    outs = [tvm.runtime.tensor(np.full(shape, np.nan, np.float32)) for shape in shapes]
    arrays = list(candidate.format.encode(weight).values())
    args = [tvm.runtime.tensor(np.ascontiguousarray(a)) for a in (gates, *arrays, *meaning, *rest)]
    built["main"](*args, *outs)
    return [out.numpy() for out in outs]


def reference(r: Recurrence, weight, given, dtype=torch.float64):
    """Return the same by PyTorch, in float64."""
    gates, *rest = (torch.from_numpy(a).to(dtype) for a in given)
    bias = rest.pop(0) if r.bias else None
    w = torch.from_numpy(weight).to(dtype)
    found = expected(gates, w, rest, bias, r.cell, r.reverse, r.batch_first, r.rounded)
    return [value.numpy() for value in found]


def check(r: Recurrence, weight, given, names=None, atol=0.0):
    """Compare the formats called ``names``, or all, with the reference."""
    for name, candidate in candidates(r, weight).items():
        if names is None or name in names:
            wanted = reference(r, weight, given)
            for got, exact in zip(run(r, candidate, weight, given), wanted, strict=True):
                np.testing.assert_allclose(got, exact, rtol=0, atol=atol, err_msg=name)


@pytest.mark.grid
@pytest.mark.parametrize("sort", ["unstructured", "balanced", "block", "joint"])
def test_every_format_is_exact_on_small_integers(sort):
    rng = np.random.default_rng(0)
    r = Recurrence("rnn_relu", 2, 3, 64, bias=True)
    weight = integers(rng, (r.gates, r.hidden))
    keep = {
        "unstructured": rng.random(weight.shape) < 0.1,
        "balanced": np.argsort(rng.random((64, 4, 16)), -1).reshape(weight.shape) < 2,
        "block": np.kron(rng.random((4, 16)) < 0.2, np.ones((16, 4))) > 0,
        "joint": np.kron(rng.random((4, 4)) < 0.5, np.ones((16, 16))) * rng.random((64, 64)) > 0.7,
    }[sort]
    weight *= keep
    found = candidates(r, weight)
    assert sort in found
    check(r, weight, operands(r, rng))


@settings(max_examples=8)
@given(
    cell=st.sampled_from(sorted(CELLS)),
    batch=st.integers(1, 3),
    steps=st.integers(1, 3),
    hidden=st.sampled_from([1, 5, 16, 17, 40]),
    flags=st.tuples(*[st.booleans()] * 3),
    seed=st.integers(0, 99),
)
def test_all_cells_and_layouts(cell, batch, steps, hidden, flags, seed):
    rng = np.random.default_rng(seed)
    r = Recurrence(cell, batch, steps, hidden, *flags)
    scale = 1 if cell == "rnn_relu" else SCALE
    weight = integers(rng, (r.gates, r.hidden)) * np.float32(scale)
    given_ = [value * np.float32(scale) for value in operands(r, rng)]
    exact = cell == "rnn_relu"
    check(r, weight, given_, ("dense",), atol=0 if exact else 2e-6)


@pytest.mark.parametrize("cell", sorted(CELLS))
def test_nan_goes_from_a_step_to_those_behind_it(cell):
    rng = np.random.default_rng(0)
    turns = CELLS[cell].turns
    r = Recurrence(cell, 1, 3 * turns, 20)
    weight = integers(rng, (r.gates, r.hidden)) * np.float32(SCALE)
    given = [value * np.float32(SCALE) for value in operands(r, rng)]
    if turns > 1:
        given[-1][:] = -1
    given[0][turns : 2 * turns, 0, 0] = np.nan
    every, *_ = run(r, candidates(r, weight)["dense"], weight, given)
    wanted, *_ = reference(r, weight, given)
    assert (np.isnan(every) == np.isnan(wanted)).all()
    assert np.isfinite(every[:turns]).all()
    assert np.isnan(every[3 * turns - 1]).all()


def test_many_steps():
    rng = np.random.default_rng(0)
    r = Recurrence("gru", 1, 200, 32, bias=True)
    weight = integers(rng, (r.gates, r.hidden)) * np.float32(SCALE)
    given = [value * np.float32(SCALE) for value in operands(r, rng)]
    check(r, weight, given, ("dense",), atol=2e-6)


@pytest.mark.parametrize("numerics", [FLOAT32, INTEGERS[0]], ids=["floats", "bytes"])
@pytest.mark.parametrize(("cell", "batch", "hidden"), [("lstm", 1, 40), ("gru", 3, 17)])
def test_states_are_rounded(cell, batch, hidden, numerics):
    rng = np.random.default_rng(0)
    r = Recurrence(cell, batch, 4, hidden, bias=True, rounded=True, numerics=numerics)
    whole = rng.integers(-128, 128, (r.gates, r.hidden)).astype(np.int8)
    steps = rng.uniform(1e-3, 2e-3, r.gates).astype(np.float32)
    weight = whole * steps[:, None]
    given = [rng.standard_normal(value.shape, np.float32) for value in operands(r, rng)]
    dense = dense_candidate(r.product, host())
    if r.integers:
        found = run(r, dense, whole, given, (steps, whole.sum(1, dtype=np.int32)))
    else:
        found = run(r, dense, weight, given)
    for got, wanted in zip(found, reference(r, weight, given, torch.float32), strict=True):
        np.testing.assert_allclose(got, wanted, atol=3e-6)
    unrounded = reference(replace(r, rounded=False), weight, given, torch.float32)
    assert np.abs(found[0] - unrounded[0]).max() > 1e-3


def test_a_state_of_zeros_has_no_step():
    r = Recurrence("rnn_relu", 1, 2, 16, rounded=True, numerics=INTEGERS[0])
    whole, steps = np.ones((16, 16), np.int8), np.ones(16, np.float32)
    given = [np.zeros(r.sequence_shape(16), np.float32), np.zeros(r.state_shape, np.float32)]
    (every,) = run(
        r, dense_candidate(r.product, host()), whole, given, (steps, np.full(16, 16, np.int32))
    )
    assert (every == 0).all()
