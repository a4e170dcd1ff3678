"""FoldScales: one product a sum, wherever all that is added up has a factor of its own."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.ops.quantise import Scale
from tvm_sparse.passes.fold_scales import FoldScales
from tvm_sparse.passes.quantisation import dequantize, quantize

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
    ],
)
def test_what_stays(body, dtype):
    before = module(body, (2, FEATURES), dtype=dtype)
    tvm.ir.assert_structural_equal(FoldScales()(before), before, True)
