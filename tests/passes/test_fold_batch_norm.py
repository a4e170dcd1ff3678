"""Batch norm folding: into a convolution, on its own, and when the convolution is shared."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.fold_batch_norm import FoldBatchNorm
from tvm_sparse.passes.graph.rewrite import constant, name_of

RNG = np.random.default_rng(0)
WEIGHT = (RNG.standard_normal((4, 3, 3, 3)) * (RNG.random((4, 3, 3, 3)) < 0.5)).astype(np.float32)
STATS = [RNG.random(4).astype(np.float32) + 0.5 for _ in range(4)]
SHAPE = (1, 3, 5, 5)
R = relax.op


def norm(x, training=False):
    params = (constant(s) for s in STATS)
    return R.nn.batch_norm(x, *params, axis=1, training=training)[0]


def conv(x):
    return R.nn.conv2d(x, constant(WEIGHT, "conv.weight"), padding=1)


@pytest.mark.grid
@pytest.mark.parametrize(
    "body, shape, expected",
    [
        (lambda x: norm(conv(x)), (1, 3, 5, 5), {"nn.conv2d": 1, "add": 1}),
        (norm, (1, 4, 5, 5), {"multiply": 1, "add": 1}),
        (lambda x: norm(R.nn.relu(x)), (1, 4, 5, 5), {"nn.relu": 1, "multiply": 1, "add": 1}),
    ],
)
def test_folded_and_equal(body, shape, expected):
    before = module(body, shape)
    after = FoldBatchNorm()(before)
    assert operators(after) == expected
    x = RNG.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, x), evaluate(before, x), rtol=1e-4, atol=1e-5)


def test_zeros_and_the_name_survive():
    after = FoldBatchNorm()(module(lambda x: norm(conv(x)), (1, 3, 5, 5)))
    call = after["main"].body.blocks[0].bindings[0].value
    weight = call.args[1]
    assert name_of(weight) == "conv.weight"
    assert ((weight.value.numpy() == 0) == (WEIGHT == 0)).all()


def test_a_convolution_read_twice_keeps_its_weight():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 5, 5), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            shared = builder.emit(conv(x))
            normed = builder.emit(norm(shared))
            out = builder.emit_output(R.add(normed, shared))
        builder.emit_func_output(out)
    before = builder.finalize()
    after = FoldBatchNorm()(before)
    assert operators(after) == {"nn.conv2d": 1, "multiply": 1, "add": 2}
    x = RNG.standard_normal((1, 3, 5, 5)).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, x), evaluate(before, x), rtol=1e-4, atol=1e-5)


def test_epsilon_counts():
    from tvm_sparse.passes.canonical.fold_batch_norm import affine

    scale, shift = affine([np.float32([2]), np.float32([1]), np.float32([3]), np.float32([0])], 4.0)
    assert scale == 1 and shift == -2


def test_training_mode_is_left_alone():
    before = module(lambda x: norm(conv(x), training=True), (1, 3, 5, 5))
    assert operators(FoldBatchNorm()(before)) == {"nn.conv2d": 1, "nn.batch_norm": 1}


def rounded(x, dtype="float16", scale=1.0):
    """A convolution in 16 bits, whose sums are rounded, and its norm."""
    weight = (WEIGHT * scale).astype(np.dtype(dtype))
    sums = R.nn.conv2d(x, constant(weight, "conv.weight"), padding=1, out_dtype="float32")
    params = (constant(s.astype(np.dtype(dtype))) for s in STATS)
    return R.nn.batch_norm(R.astype(sums, dtype), *params, axis=1, training=False)[0]


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_that_are_rounded_before_the_norm_are_rounded_once_behind_it(dtype):
    after = FoldBatchNorm()(module(lambda x: rounded(x, dtype), SHAPE, dtype=dtype))
    assert operators(after) == {"nn.conv2d": 1, "add": 1, "astype": 1}
    assert after["main"].ret_ty.dtype == dtype


def test_results_of_16_bits_are_as_near_as_before():
    before, exact = module(rounded, SHAPE, dtype="float16"), module(lambda x: norm(conv(x)), SHAPE)
    x = RNG.standard_normal((1, 3, 5, 5)).astype(np.float16)
    wanted = evaluate(exact, x.astype(np.float32))
    errors = [
        np.abs(evaluate(mod, x).astype("f4") - wanted).max()
        for mod in (before, FoldBatchNorm()(before))
    ]
    assert errors[1] <= max(errors[0], 4e-3 * np.abs(wanted).max())


def test_weights_that_would_lose_their_digits_stay():
    after = FoldBatchNorm()(module(lambda x: rounded(x, scale=1e-5), SHAPE, dtype="float16"))
    assert operators(after) == {"nn.conv2d": 1, "astype": 1, "multiply": 1, "add": 1}


def test_rounded_sums_that_are_read_twice_keep_their_weight():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float16"))
    params = [constant(s.astype("f2")) for s in STATS]
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = constant(WEIGHT.astype("f2"))
            sums = builder.emit(R.nn.conv2d(x, weight, padding=1, out_dtype="float32"))
            half = builder.emit(R.astype(sums, "float16"))
            normed = builder.emit(R.nn.batch_norm(half, *params, axis=1, training=False)[0])
            out = builder.emit_output(R.add(R.astype(sums, "float16"), normed))
        builder.emit_func_output(out)
    assert operators(FoldBatchNorm()(builder.finalize()))["multiply"] == 1
