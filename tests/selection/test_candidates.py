"""Every format that is offered for a weight computes the layer: any zeros, columns, rows, type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import tirx

from tests.kernels import host, integers, keep_of_bank
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.candidates import dense_candidate, sparse_candidates

ROWS = [0, 1, 7, 67]
"""Rows of input: one compiled operator meets all of them."""


def blocks(rng, shape, rows, cols):
    grid = -(-shape[0] // rows), -(-shape[1] // cols)
    kept = (rng.random(grid) < 0.3).repeat(rows, 0).repeat(cols, 1)[: shape[0], : shape[1]]
    return integers(rng, shape) * kept


def shared(rng, shape):
    """Rows of 16 neighbours have pairs 16 below that keep the same columns."""
    half = keep_of_bank(rng, (shape[0] // 2, shape[1]), 3).reshape(-1, 1, 16, shape[1]) != 0
    return integers(rng, shape) * half.repeat(2, 1).reshape(shape)


def empty_rows(rng, shape):
    matrix = integers(rng, shape, 0.7)
    matrix[: shape[0] // 2] = 0
    matrix[-1] = 0
    return matrix


PATTERNS = {
    "no zeros": integers,
    "all zeros": lambda rng, shape: np.zeros(shape, np.float32),
    "empty rows": empty_rows,
    "unstructured": lambda rng, shape: integers(rng, shape, 0.8),
    "balanced": lambda rng, shape: keep_of_bank(rng, shape, 4),
    "shared rows": shared,
    "block 16x4": lambda rng, shape: blocks(rng, shape, 16, 4),
    "block 4x4": lambda rng, shape: blocks(rng, shape, 4, 4),
    "joint": lambda rng, shape: blocks(rng, shape, 16, 16) * keep_of_bank(rng, shape, 2),
}

GRID = [
    *((name, (40, 33)) for name in ("no zeros", "all zeros", "empty rows", "block 16x4")),
    *((name, (40, 5)) for name in ("unstructured", "block 4x4")),
    *((name, (33, 48)) for name in ("unstructured", "balanced", "block 4x4")),
    *((name, (64, 32)) for name in ("shared rows", "joint")),
    ("empty rows", (1, 17)),
]


@pytest.mark.grid
@pytest.mark.parametrize(("name", "shape"), GRID, ids=str)
def test_every_format_is_exact_for_any_rows(name, shape):
    rng = np.random.default_rng(0)
    matrix = PATTERNS[name](rng, shape)
    dynamic = Contraction((tirx.Var("n", "int64"),), shape[1], shape[0])
    offered = [dense_candidate(dynamic, host()), *sparse_candidates(dynamic, Scan(matrix), host())]
    # Small integers are exact in bfloat16, and symbolic rows count as few: values are narrow.
    found = [c for c in offered if not isinstance(c, str)]
    assert len(found) > 1
    for candidate in found:
        run = build_function(candidate.func, host())["main"]
        arrays = [tvm.runtime.tensor(a) for a in candidate.format.encode(matrix).values()]
        for rows in ROWS:
            x = integers(rng, (rows, shape[1]))
            out = tvm.runtime.tensor(np.full((rows, shape[0]), np.nan, np.float32))
            run(tvm.runtime.tensor(x), *arrays, out)
            expected = reference(replace(dynamic, lead=(rows,)), x, matrix)
            assert (out.numpy() == expected).all(), (candidate.name, rows)


@pytest.mark.grid
@pytest.mark.parametrize("name", ["balanced", "block 4x4", "block 16x4", "joint", "unstructured"])
def test_error_is_bounded_on_reals(name):
    rng = np.random.default_rng(0)
    contraction = Contraction((9,), 320, 64)
    mask = PATTERNS[name](rng, contraction.matrix_shape) != 0
    matrix = rng.standard_normal(mask.shape, dtype=np.float32) * mask
    x = rng.standard_normal((9, 320), dtype=np.float32)
    bound = 320 * np.finfo(np.float32).eps * (np.abs(x) @ np.abs(matrix.T))
    exact = x.astype(np.float64) @ matrix.T.astype(np.float64)
    for candidate in sparse_candidates(contraction, Scan(matrix), host()):
        if isinstance(candidate, str):
            continue
        out = tvm.runtime.tensor(np.full(exact.shape, np.nan, np.float32))
        arrays = [tvm.runtime.tensor(a) for a in candidate.format.encode(matrix).values()]
        build_function(candidate.func, host())["main"](tvm.runtime.tensor(x), *arrays, out)
        assert (np.abs(out.numpy() - exact) <= bound).all(), candidate.name


@pytest.mark.parametrize(("cpu", "chosen"), [("skylake-avx512", "balanced"), ("haswell", "other")])
def test_lookups_are_modelled_cheapest_only_where_they_are(cpu, chosen):
    contraction = Contraction((128,), 512, 512)
    matrix = PATTERNS["balanced"](np.random.default_rng(0), (512, 512))
    offered = sparse_candidates(contraction, Scan(matrix), host(cpu))
    found = [c for c in offered if not isinstance(c, str)]
    best = min(found, key=lambda c: c.cost)
    assert (best.name == "balanced") == (chosen == "balanced")
    assert best.cost < 1
