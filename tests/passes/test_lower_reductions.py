"""LowerReductions: rows are reduced in vectors, NaN as PyTorch has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import relax, tirx

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.passes.bytes.quantization import dequantize
from tvm_sparse.passes.lower import lower_reductions
from tvm_sparse.passes.lower.lower_reductions import LowerReductions

REDUCTIONS = {"max": (relax.op.max, np.max), "min": (relax.op.min, np.min)}
REDUCTIONS["prod"] = (relax.op.prod, np.prod)
REDUCTIONS["sum"] = (relax.op.sum, np.sum)
REDUCTIONS["mean"] = (relax.op.mean, np.mean)


@pytest.mark.grid
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 16), [-1]),
        ((3, 17), [1]),
        ((2, 3, 200), [2]),
        ((5, 7, 7), [1, 2]),
        ((2, 3, 7), None),
        ((1, 50000), [-1]),
        ((4, 1, 64), [-2, -1]),
        ((3, 64), [0]),
        ((2, 5, 65), [1]),
        ((1, 3, 127), [1]),
        ((2, 3, 7, 31, 33), [1, 2]),
        ((2, 1, 257), [-2]),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_rows_and_columns_are_reduced_in_vectors(name, shape, axes, keepdims):
    ours, theirs = REDUCTIONS[name]
    after = LowerReductions()(module(lambda x: ours(x, axes, keepdims=keepdims), shape))
    assert operators(after).get(name, 0) == 0
    x = np.random.default_rng(0).choice([-1.0, 1.0, 0.5, 2.0], shape).astype(np.float32)
    expected = theirs(x, axis=None if axes is None else tuple(axes), keepdims=keepdims)
    np.testing.assert_allclose(evaluate(after, x), expected, rtol=1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("name", [*REDUCTIONS, "variance"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((17,), [1]), ((4, 7, 7), [2, 3]), ((5, 65), [1]), ((3, 7, 65), [1, 2])]
)
def test_rows_and_columns_of_an_open_batch(name, shape, axes):
    if name == "variance" and 1 + max(axes) <= len(shape):
        pytest.skip("variances are those of rows alone")
    ours, theirs = {**REDUCTIONS, "variance": (relax.op.variance, np.var)}[name]
    n = tirx.Var("n", "int64")
    after = LowerReductions()(module(lambda x: ours(x, axes), (n, *shape)))
    assert operators(after).get(name, 0) == 0
    for batch in (1, 2, 9):
        x = np.random.default_rng(0).choice([-1.0, 1.0, 0.5, 2.0], (batch, *shape))
        x = x.astype(np.float32)
        np.testing.assert_allclose(evaluate(after, x), theirs(x, axis=tuple(axes)), rtol=1e-5)


def test_open_rows_stay():
    n = tirx.Var("n", "int64")
    for shape, axes in (((4, n), [1]), ((n, 64), [0]), ((4, 5, n), [1])):
        before = module(lambda x, axes=axes: relax.op.max(x, axes), shape)
        assert operators(LowerReductions()(before)) == {"max": 1}


@pytest.mark.parametrize(
    ("shape", "axes"), [((16, 63), [0]), ((3, 15), [1]), ((4, 5, 16), [0, 2]), ((0, 16), [1])]
)
def test_other_axes_short_rows_and_few_columns_stay(shape, axes):
    before = module(lambda x: relax.op.max(x, axes), shape)
    assert operators(LowerReductions()(before)) == {"max": 1}


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_compute_their_elements_themselves(name):
    op = getattr(relax.op, name)
    before = module(lambda x: op(relax.op.multiply(x, x), [-1]), (3, 64))
    assert operators(LowerReductions()(before)).get(name) == 1


@pytest.mark.grid
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("shape", "axes", "calls"),
    [
        ((2, 9, 7, 480), [1, 2], 1),
        ((1, 112, 112, 32), [1, 2], 2),  # several rows together
        ((3, 50, 24), [1], 2),
        ((3, 64), [0], 1),
        ((3, 16), [0], 0),  # few rows and columns
        ((3, 64), [1], 0),  # rows
        ((4, 5, 80), [0, 2], 0),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_columns_of_bytes_are_added_up_as_integers(name, dtype, shape, axes, calls, keepdims):
    ours, theirs = REDUCTIONS[name]
    scale = Scale(dtype, 0.25, 77)
    before = module(lambda x: ours(dequantize(x, scale), axes, keepdims), shape, dtype=dtype)
    after = operators(LowerReductions()(before))
    assert after.get("dequantize", 0) == (calls == 0)
    assert after.get(name, 0) == (calls != 1)  # the few sums of rows together
    x = np.random.default_rng(0).integers(*scale.limits, shape, dtype, endpoint=True)
    expected = theirs((x - 77.0) * 0.25, axis=tuple(axes), keepdims=keepdims)
    got = evaluate(LowerReductions()(before), x)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_more_bytes_than_a_sum_holds_stay(monkeypatch):
    monkeypatch.setattr(lower_reductions, "MOST_BYTES", 99)
    scale = Scale("uint8", 0.25, 77)
    for rows, calls in ((99, 1), (100, 0)):
        shape = (rows, 64)
        before = module(lambda x: relax.op.sum(dequantize(x, scale), [0]), shape, dtype=scale.dtype)
        assert operators(LowerReductions()(before)).get("call_tir", 0) == calls


@pytest.mark.parametrize("axis", [-1, 1])
def test_integers_add_up_exactly(axis):
    x = torch.randint(-9, 9, (2, 67, 131)).float()

    class Summed(torch.nn.Module):
        def forward(self, x):
            return x.sum(axis), x.mean((0, 1)), x.sum()

    found = ts.compile(Summed(), (x,), target="cpu")(x)
    assert torch.equal(found[0], x.sum(axis)) and torch.equal(found[2], x.sum())
    torch.testing.assert_close(found[1], x.mean((0, 1)), rtol=1e-6, atol=0)


@pytest.mark.grid
@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 130])
@pytest.mark.parametrize("function", [torch.amax, torch.amin])
def test_nan_and_infinities_are_pytorchs(function, place):
    x = torch.randn(4, 131)
    x[0, place], x[1, place], x[2, place] = torch.nan, torch.inf, -torch.inf
    x[3] = -torch.inf

    class Reduced(torch.nn.Module):
        def forward(self, x):
            return function(x, -1)

    found = ts.compile(Reduced(), (x,), target="cpu")(x)
    torch.testing.assert_close(found, function(x, -1), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("function", [torch.amax, torch.amin])
def test_columns_with_nan_are_pytorchs(function):
    x = torch.randn(5, 131)
    x[0, 3], x[4, 70], x[2, 130], x[3, 9] = torch.nan, torch.nan, torch.inf, -torch.inf

    class Reduced(torch.nn.Module):
        def forward(self, x):
            return function(x, 0)

    found = ts.compile(Reduced(), (x,), target="cpu")(x)
    torch.testing.assert_close(found, function(x, 0), equal_nan=True, rtol=0, atol=0)


LEAST_OPEN = (1, 2, 15, 16, 17, 31, 48, 100)


class _Sums(torch.nn.Module):
    def forward(self, x):
        joined = torch.cat([x] * 16 + [x[:, :, :1]] * 3, 2).relu()
        return x.mean(-1), (x * x).sum(-1, keepdim=True), x.sum((-2, -1)), joined.sum(-1)


@pytest.mark.grid
@pytest.mark.parametrize("batch", [None, torch.export.Dim("batch", min=1, max=9)])
def test_sums_of_open_rows_are_exact(batch):
    dims = {2: torch.export.Dim("width", min=1, max=200)} | ({0: batch} if batch else {})
    config, x = ts.Config(measure=False, tuned=False), torch.randn(2, 3, 40)
    library = ts.compile(_Sums(), (x,), dynamic_shapes=(dims,), config=config)
    assert "row_sum" in " ".join(kernel.function for kernel in library.kernels)
    generator = torch.Generator().manual_seed(0)
    for width in LEAST_OPEN:
        count = 2 if batch is None else 1 + width % 9
        x = torch.randint(-8, 9, (count, 3, width), generator=generator).float()
        found, wanted = library(x), _Sums()(x)
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-6, atol=1e-6)
        for one, other in zip(found[1:], wanted[1:], strict=True):
            assert torch.equal(one, other)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((31, 257), [-1]), ((3, 16), [1]), ((2, 5, 999), [2]), ((4, 7, 7), [1, 2]), ((2, 40), None)],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_variances_are_those_of_centred_rows(shape, axes, keepdims):
    after = LowerReductions()(module(lambda x: relax.op.variance(x, axes, keepdims), shape))
    assert "variance" not in operators(after)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) + 300
    axis = None if axes is None else tuple(axes)
    expected = np.var(x.astype(np.float64), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(evaluate(after, x), expected, rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_number_makes_none_of_its_rows_variance(value):
    x = np.random.default_rng(0).standard_normal((4, 33)).astype(np.float32)
    x[1, 32] = value
    got = evaluate(LowerReductions()(module(lambda x: relax.op.variance(x, [-1]), x.shape)), x)
    assert np.isnan(got).tolist() == [False, True, False, False]


@pytest.mark.parametrize(("shape", "axes"), [((16, 63), [0]), ((3, 15), [1]), ((0, 16), [1])])
def test_variances_of_other_axes_and_short_rows_stay(shape, axes):
    before = module(lambda x: relax.op.variance(x, axes), shape)
    assert operators(LowerReductions()(before)) == {"variance": 1}
