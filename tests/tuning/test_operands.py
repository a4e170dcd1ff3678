"""Arguments: indices as they are, numbers drawn anew, and a comparison that sees one product."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.integers import as_integers, sparse_bytes
from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidates import sparse_candidates
from tvm_sparse.tuning import operands
from tvm_sparse.tuning.workload import workload_of

CONTRACTION = Contraction((5,), 64, 32)
MATRIX = keep_of_bank(np.random.default_rng(0), (32, 64), 4)
FORMAT = BalancedFormat.of(MATRIX)
FUNC = balanced(CONTRACTION, FORMAT, host())
ARRAYS = FORMAT.encode(MATRIX)
FIXED = {1: ARRAYS["values"], 2: ARRAYS["indices"]}


def test_only_integers_are_taken_from_the_model():
    x, values, indices = operands.operands(FUNC, FIXED, outputs=1)
    assert x.shape == (5, 64)
    assert indices is FIXED[2]
    assert values.shape == FIXED[1].shape
    assert (values != FIXED[1]).any()


def test_the_same_seed_gives_the_same_numbers():
    first, second = (operands.operands(FUNC, FIXED, 1, seed=3) for _ in "ab")
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_sums_are_exact_in_any_order():
    x, values, indices = operands.operands(FUNC, FIXED, outputs=1)
    matrix = FORMAT.decode({"values": values, "indices": indices})
    exact = x.astype(np.float64) @ matrix.astype(np.float64).T
    assert (run(FUNC, [x, values, indices], (5, 32)) == exact).all()
    assert (x[:, ::-1] @ matrix[:, ::-1].T == exact).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_activations_and_weights_have_their_whole_range(dtype):
    x, w = te.placeholder((4096,), dtype, "X"), te.placeholder((4096,), "int8", "W")
    index = te.placeholder((4096,), "uint8", "I")
    y = te.compute((4096,), lambda i: x[i].astype("int32") * w[i] + index[i], "Y")
    func = te.create_prim_func([x, w, index, y])
    activations, weights, indices = operands.operands(func, {1: np.ones(4096, np.int8)}, outputs=1)
    for drawn in (activations, weights):
        limits = np.iinfo(drawn.dtype)
        assert (drawn.min(), drawn.max()) == (limits.min, limits.max)
    assert not indices.any()


def test_integer_layers_keep_their_indices_and_offsets():
    c = as_integers(Contraction((5,), 64, 32), "int8", -3)
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, 0.9)
    offered = sparse_candidates(c, Scan(matrix), host())
    chosen = next(k for k in offered if not isinstance(k, str) and k.name == "balanced")
    arrays = chosen.format.encode(matrix)
    fixed = dict(enumerate(arrays.values(), start=1))
    drawn = operands.operands(chosen.func, fixed, outputs=1)
    found = dict(zip(("x", *arrays), drawn, strict=True))
    assert workload_of(chosen.func, host()) is not None
    assert not np.array_equal(found["values"], arrays["values"])
    for name in ("indices", "offsets"):
        assert found[name] is arrays[name]


def test_tokens_are_indices():
    tokens = te.placeholder((8,), "int64", "X")
    y = te.compute((8,), lambda i: tokens[i] + 1, "Y")
    (drawn,) = operands.operands(te.create_prim_func([tokens, y]), {}, outputs=1)
    assert not drawn.any()


def test_integer_results_are_compared_exactly():
    found = np.arange(4, dtype=np.int32)
    assert operands.same(found, found.copy())
    assert not operands.same(found, found + 1)


def test_files_hold_everything(tmp_path):
    arrays = operands.operands(FUNC, FIXED, outputs=1)
    outputs = [operands.spec(FUNC.params[-1])]
    operands.save(tmp_path / "task", arrays, outputs)
    loaded, specs = operands.load(tmp_path / "task")
    assert specs == [((5, 32), "float32")]
    assert all((a == b).all() for a, b in zip(arrays, loaded, strict=True))


@pytest.mark.parametrize("dtype", operands.HALVES)
def test_half_precision_comes_back_from_files(tmp_path, dtype):
    n = te.placeholder((4, 8), dtype, "X")
    func = te.create_prim_func([n, te.compute(n.shape, lambda i, j: n[i, j] + n[i, j], "Y")])
    assert operands.unmeasurable(func) is None
    arrays = operands.operands(func, {}, outputs=1)
    operands.save(tmp_path / "task", arrays, [operands.spec(func.params[-1])])
    (loaded,), specs = operands.load(tmp_path / "task")
    assert specs == [((4, 8), dtype)]
    assert loaded.dtype == arrays[0].dtype
    assert operands.same(loaded, arrays[0])
    assert not operands.same(loaded * loaded.dtype.type(1.1), arrays[0])


@pytest.mark.parametrize(
    ("shape", "dtype", "word"),
    [
        ((lambda n: (n,)), "float32", "open"),
        ((lambda n: (n * 2,)), "float32", "open"),
        ((lambda n: (8,)), "float8_e4m3fn", "float8"),
    ],
)
def test_what_no_array_can_be_made_for(shape, dtype, word):
    n = te.var("n", "int64")
    x = te.placeholder(shape(n), dtype, "X")
    func = te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] + x[i], "Y")])
    assert word in operands.unmeasurable(func)


def test_one_product_too_few_is_seen():
    rng = np.random.default_rng(1)
    unit = operands.SCALE**2
    for columns in (16, 4608):
        left = integers(rng, (64, columns)) * operands.SCALE
        right = integers(rng, (64, columns)) * operands.SCALE
        expected = (left * right).sum(-1)
        wrong = expected.copy()
        wrong[17] += unit
        assert operands.same(expected, expected)
        assert operands.same(expected * (1 + 1e-7), expected)
        assert not operands.same(wrong, expected)


def test_results_that_were_never_written_are_seen():
    expected = np.ones(4, np.float32)
    assert not operands.same(np.array([1, 1, np.nan, 1], np.float32), expected)
    nothing = np.full(4, np.nan, np.float32)
    assert operands.same(nothing, nothing)


def test_float16_bounds_are_not_larger_than_the_values():
    expected = np.full(4, 2.0, np.float16)
    assert not operands.same(expected * np.float16(1.1), expected)
