"""FoldScales: one product a sum, wherever all that is added up has a factor of its own."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.passes.bytes.fold_scales import FoldScales
from tvm_sparse.passes.bytes.quantization import dequantize, quantize
from tvm_sparse.passes.lower.definitions import DEFINITIONS

FEATURES = 24
RNG = np.random.default_rng(0)
FACTORS = RNG.uniform(0.001, 0.01, FEATURES).astype(np.float32)
BIAS = RNG.standard_normal(FEATURES).astype(np.float32)
STEP, ZERO = 1 / 0.03, 17


def emit(expr):
    return relax.BlockBuilder.current().emit(expr)


def meant(sums, factors=FACTORS):
    """Return what sums mean."""
    floats = emit(relax.op.astype(sums, "float32"))
    return emit(relax.op.multiply(floats, relax.const(factors)))


def biased(sums, bias=BIAS):
    return emit(relax.op.add(meant(sums), relax.const(bias)))


def stored(floats, step=STEP):
    """Return floats as bytes, counted in steps."""
    counted = emit(relax.op.multiply(floats, relax.const(step, "float32")))
    return quantize(counted, ZERO, "uint8")


def layer(sums):
    return stored(biased(sums))


def sums_of(*shape):
    return RNG.integers(-20000, 20000, shape).astype(np.int32)


def assert_bytes(before, after, *inputs):
    """Check that both compute the same, but for results next to a half."""
    legal = relax.transform.LegalizeOps()
    old, new = (evaluate(legal(mod), *inputs).astype(int) for mod in (before, after))
    assert np.abs(old - new).max() <= 1
    assert (old != new).mean() < 0.01


def test_the_factor_and_the_bias_count_in_steps():
    before = module(layer, (3, FEATURES), dtype="int32")
    after = FoldScales()(before)

    def expected(sums):
        step = np.float32(STEP)
        floats = meant(sums, FACTORS * step)
        added = emit(relax.op.add(floats, relax.const(BIAS * step)))
        return quantize(added, ZERO, "uint8")

    tvm.ir.assert_structural_equal(after, module(expected, (3, FEATURES), dtype="int32"), True)
    assert_bytes(before, after, sums_of(3, FEATURES))


def test_sums_of_layers_and_bytes():
    scale = Scale("int8", 0.05, -3)

    def body(sums):
        whole = emit(quantize(biased(sums), scale.zero_point, scale.dtype))
        left = emit(dequantize(whole, scale))
        total = emit(relax.op.nn.relu(emit(relax.op.add(left, biased(sums)))))
        return stored(total)

    before = module(body, (5, FEATURES), dtype="int32")
    after = FoldScales()(before)
    assert operators(before)["multiply"] == 3
    assert operators(after)["multiply"] == 2
    assert_bytes(before, after, sums_of(5, FEATURES))


def test_bytes_behind_a_scale_and_a_shift():
    """As a batch norm has them, that reads bytes: one product and one sum are left."""
    scale = Scale("uint8", 0.05, 3)

    def body(q):
        scaled = emit(relax.op.multiply(emit(dequantize(q, scale)), relax.const(FACTORS)))
        return stored(emit(relax.op.nn.relu(emit(relax.op.add(scaled, relax.const(BIAS))))))

    def expected(q):
        step = np.float32(STEP)
        whole = emit(dequantize(q, Scale("uint8", 1.0, 3)))
        factors = FACTORS * np.float32(float(step) * float(np.float32(0.05)))
        scaled = emit(relax.op.multiply(whole, relax.const(factors)))
        added = emit(relax.op.add(scaled, relax.const(BIAS * step)))
        return quantize(emit(relax.op.nn.relu(added)), ZERO, "uint8")

    before = module(body, (256, FEATURES), dtype="uint8")
    after = FoldScales()(before)
    tvm.ir.assert_structural_equal(after, module(expected, (256, FEATURES), dtype="uint8"), True)
    every = np.repeat(np.arange(256, dtype=np.uint8)[:, None], FEATURES, 1)
    legal = relax.transform.LegalizeOps(DEFINITIONS)
    old, new = (evaluate(legal(mod), every).astype(int) for mod in (before, after))
    assert np.abs(old - new).max() <= 1
    assert (old != new).mean() < 0.01


def test_sums_of_bytes_count_in_steps_of_the_first():
    left, right = Scale("uint8", 0.05, 3), Scale("int8", 0.02, -9)

    def body(a, b):
        pair = [emit(dequantize(a, left)), emit(dequantize(relax.op.astype(b, "int8"), right))]
        return stored(emit(relax.op.add(*pair)))

    def expected(a, b):
        narrow = emit(relax.op.astype(b, "int8"))
        first = emit(dequantize(a, Scale("uint8", 1.0, 3)))
        ratio = float(np.float32(right.scale) / np.float32(left.scale))
        total = emit(relax.op.add(first, emit(dequantize(narrow, Scale("int8", ratio, -9)))))
        size = relax.const(np.float32(left.scale) * np.float32(STEP))
        return quantize(emit(relax.op.multiply(total, size)), ZERO, "uint8")

    shapes = (256, 256), (256, 256)
    before = module(body, *shapes, dtype="uint8")
    after = FoldScales()(before)
    tvm.ir.assert_structural_equal(after, module(expected, *shapes, dtype="uint8"), True)
    every = np.broadcast_to(np.arange(256, dtype=np.uint8), (256, 256))
    legal = relax.transform.LegalizeOps(DEFINITIONS)
    pair = (np.ascontiguousarray(every), np.ascontiguousarray(every.T))
    old, new = (evaluate(legal(mod), *pair).astype(int) for mod in (before, after))
    assert np.abs(old - new).max() <= 1
    assert (old != new).mean() < 0.001


@pytest.mark.grid
@pytest.mark.parametrize("swapped", [False, True])
def test_gates_have_all_sizes(swapped):
    values, gate = Scale("uint8", 0.0517, 3), Scale("uint8", 0.00431, 9)
    shapes = (1, 16, 16, 256), (1, 1, 1, 256)

    def multiplied(a, b, scales):
        pairs = [(a, scales[0]), (b, scales[1])]
        ordered = pairs[::-1] if swapped else pairs
        return emit(relax.op.multiply(*(emit(dequantize(*pair)) for pair in ordered)))

    def body(a, b):
        return stored(multiplied(a, b, (values, gate)))

    def expected(a, b):
        sizes = [np.float32(x) for x in (0.0517, 0.00431, STEP)]
        first, second = (1, 0) if swapped else (0, 1)
        size = float(sizes[first] * sizes[second] * sizes[2])
        scales = Scale("uint8", 1.0, 3), Scale("uint8", size, 9)
        return quantize(multiplied(a, b, scales), ZERO, "uint8")

    before = module(body, *shapes, dtype="uint8")
    after = FoldScales()(before)
    tvm.ir.assert_structural_equal(after, module(expected, *shapes, dtype="uint8"), True)
    a = np.resize(np.arange(256, dtype=np.uint8), shapes[0]).swapaxes(1, 3).reshape(shapes[0])
    b = RNG.permutation(256).astype(np.uint8).reshape(shapes[1])
    legal = relax.transform.LegalizeOps(DEFINITIONS)
    old, new = (evaluate(legal(mod), a, b).astype(int) for mod in (before, after))
    assert np.abs(old - new).max() <= 1
    assert (old != new).mean() < 0.001


def test_a_gate_whose_sizes_vanish_together_keeps_them():
    tiny = Scale("uint8", 1e-30, 3)

    def body(a, b):
        product = emit(relax.op.multiply(emit(dequantize(a, tiny)), emit(dequantize(b, tiny))))
        return stored(product, 1e30)

    before = module(body, (4, 16), (1, 16), dtype="uint8")
    tvm.ir.assert_structural_equal(FoldScales()(before), before, True)


def test_sizes_that_are_far_apart_stay_apart():
    left, right = Scale("uint8", 1e-20, 3), Scale("uint8", 1.0, 0)

    def body(a, b):
        return stored(emit(relax.op.add(emit(dequantize(a, left)), emit(dequantize(b, right)))))

    before = module(body, (16, 16), (16, 16), dtype="uint8")
    after = FoldScales()(before)
    assert "multiply" not in operators(after)
    pair = RNG.integers(0, 256, (2, 16, 16)).astype(np.uint8)
    legal = relax.transform.LegalizeOps(DEFINITIONS)
    old, new = (evaluate(legal(mod), *pair).astype(int) for mod in (before, after))
    np.testing.assert_array_equal(old, new)


def test_pieces_that_are_joined_have_their_own_steps():
    left, right = Scale("uint8", 0.05, 3), Scale("uint8", 0.02, 0)

    def body(a, b):
        pieces = [emit(dequantize(a, left)), emit(dequantize(b, right))]
        return stored(emit(relax.op.concat(pieces, 1)))

    def expected(a, b):
        sizes = [np.float32(s.scale) * np.float32(STEP) for s in (left, right)]
        pieces = [
            emit(dequantize(a, Scale("uint8", float(sizes[0]), 3))),
            emit(dequantize(b, Scale("uint8", float(sizes[1]), 0))),
        ]
        return quantize(emit(relax.op.concat(pieces, 1)), ZERO, "uint8")

    shapes = (4, FEATURES), (4, 2 * FEATURES)
    after = FoldScales()(module(body, *shapes, dtype="uint8"))
    tvm.ir.assert_structural_equal(after, module(expected, *shapes, dtype="uint8"), True)


def joined_with_floats(sums):
    scale = Scale("int8", 0.05, -3)
    means = emit(dequantize(emit(quantize(biased(sums), scale.zero_point, scale.dtype)), scale))
    floats = emit(relax.op.exp(meant(sums)))
    return stored(emit(relax.op.concat([means, floats], 0)))


def read_twice(sums):
    floats = biased(sums)
    wide = emit(relax.op.astype(emit(stored(floats)), "float32"))
    return relax.op.add(wide, floats)


def of_floats(x):
    scaled = emit(relax.op.multiply(x, relax.const(FACTORS)))
    return stored(emit(relax.op.add(scaled, relax.const(BIAS))))


def through_a_sigmoid(sums):
    return stored(emit(relax.op.sigmoid(biased(sums))))


def with_a_tensor(sums):
    floats = emit(relax.op.exp(meant(sums)))
    return stored(emit(relax.op.add(biased(sums), floats)))


def by_a_negative_number(sums):
    return stored(biased(sums), -2.0)


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        (read_twice, "int32"),
        (of_floats, "float32"),
        (through_a_sigmoid, "int32"),
        (with_a_tensor, "int32"),
        (by_a_negative_number, "int32"),
        (joined_with_floats, "int32"),
    ],
)
def test_what_stays(body, dtype):
    before = module(body, (2, FEATURES), dtype=dtype)
    tvm.ir.assert_structural_equal(FoldScales()(before), before, True)
