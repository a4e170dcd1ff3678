"""ReadBytes: sums of bytes have no kernel of their own, and no floats are stored for them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.passes.bytes.quantization import dequantize, quantize
from tvm_sparse.passes.bytes.read_bytes import ReadBytes
from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.passes.lower.definitions import DEFINITIONS

LEFT, RIGHT = Scale("uint8", 0.02, 100), Scale("int8", 0.03, -5)
SHAPE = (3, 40)
RNG = np.random.default_rng(0)


def meant(steps, scale):
    """Return what the bytes next to ``steps`` mean."""
    low, high = scale.limits
    q = np.clip(np.rint(steps) + scale.zero_point, low, high)
    return ((q - scale.zero_point) * np.float32(scale.scale)).astype(np.float32)


def emitted(x, scale, again=None):
    """Return ``x`` as bytes and back, its zero point another if ``again`` says so."""
    builder = relax.BlockBuilder.current()
    q = builder.emit(quantize(x, scale.zero_point, scale.dtype))
    return builder.emit(dequantize(q, again or scale)), q


def test_bytes_that_only_a_sum_reads_are_never_made():
    def body(x, y):
        return relax.op.add(emitted(x, LEFT)[0], emitted(y, RIGHT)[0])

    before = module(body, SHAPE, SHAPE)
    after = ReadBytes()(before)
    assert operators(before) == {"quantize": 2, "dequantize": 2, "add": 1}
    # The later ones are stored: a sum is fused behind what comes first.
    assert operators(after) == {"call_tir": 2, "multiply": 1, "quantize": 1}
    x, y = (RNG.standard_normal(SHAPE, np.float32) * 200 for _ in range(2))
    legal = relax.transform.LegalizeOps(DEFINITIONS)(after)
    np.testing.assert_allclose(evaluate(legal, x, y), meant(x, LEFT) + meant(y, RIGHT), rtol=1e-6)


def test_bytes_that_others_read_are_stored():
    def body(x, y):
        means, q = emitted(x, LEFT)
        total = relax.BlockBuilder.current().emit(relax.op.add(means, y))
        return relax.op.add(total, relax.op.astype(q, "float32"))

    after = ReadBytes()(module(body, SHAPE, SHAPE))
    assert operators(after) == {"quantize": 1, "call_tir": 1, "astype": 1, "add": 1}


def test_another_zero_point_means_something_else():
    def body(x, y):
        return relax.op.add(emitted(x, LEFT, Scale("uint8", 0.02, 99))[0], y)

    after = ReadBytes()(module(body, SHAPE, SHAPE))
    assert operators(after) == {"quantize": 1, "call_tir": 1}
    x, y = (RNG.standard_normal(SHAPE, np.float32) * 200 for _ in range(2))
    legal = relax.transform.LegalizeOps(DEFINITIONS)(after)
    expected = meant(x, LEFT) + np.float32(0.02) + y
    np.testing.assert_allclose(evaluate(legal, x, y), expected, rtol=1e-5, atol=1e-5)


def test_bytes_that_are_never_made_mean_something_where_they_were():
    """TVM fuses a sum behind what comes first, as far as that reaches without the other operand."""

    def body(x, y):
        builder = relax.BlockBuilder.current()
        early = builder.emit(quantize(x, LEFT.zero_point, LEFT.dtype))
        late, _ = emitted(builder.emit(relax.op.exp(y)), RIGHT)
        return relax.op.add(late, builder.emit(dequantize(early, LEFT)))

    after = ReadBytes()(module(body, SHAPE, SHAPE))
    values = [binding.value for binding in after["main"].body.blocks[0].bindings]
    names = [op_name(value) for value in values if isinstance(value, relax.Call)]
    assert names == ["call_tir", "multiply", "exp", "quantize", "call_tir"]


def test_bytes_that_only_one_operator_reads_are_never_made():
    factors = RNG.standard_normal(SHAPE[1], np.float32)

    def body(x):
        return relax.op.multiply(emitted(x, LEFT)[0], relax.const(factors))

    after = ReadBytes()(module(body, SHAPE))
    assert operators(after) == {"call_tir": 1, "multiply": 2}
    x = RNG.standard_normal(SHAPE, np.float32) * 200
    x[0, :3] = np.nan, np.inf, -np.inf
    legal = relax.transform.LegalizeOps(DEFINITIONS)(after)
    expected = meant(np.nan_to_num(x, nan=-np.inf), LEFT) * factors
    np.testing.assert_allclose(evaluate(legal, x), expected, rtol=1e-6)


def test_bytes_behind_which_rows_are_added_up_are_made():
    def body(x):
        return relax.op.sum(emitted(x, LEFT)[0], axis=1)

    before = module(body, SHAPE)
    assert operators(ReadBytes()(before)) == operators(before)


def test_concatenations_read_bytes():
    def body(x, y, z):
        return relax.op.concat([emitted(x, LEFT)[0], y, emitted(z, RIGHT)[0]], 1)

    shapes = SHAPE, (3, 5), (3, 17)
    before = module(body, *shapes)
    after = ReadBytes()(before)
    assert operators(before) == {"quantize": 2, "dequantize": 2, "concat": 1}
    assert operators(after) == {"quantize": 2, "call_tir": 1}
    x, y, z = (RNG.standard_normal(shape, np.float32) * 200 for shape in shapes)
    legal = relax.transform.LegalizeOps(DEFINITIONS)(after)
    expected = np.concatenate([meant(x, LEFT), y, meant(z, RIGHT)], 1)
    np.testing.assert_allclose(evaluate(legal, x, y, z), expected, rtol=1e-6)


def test_concatenations_of_floats_stay():
    before = module(lambda x, y: relax.op.concat([x, y], 1), SHAPE, SHAPE)
    tvm.ir.assert_structural_equal(ReadBytes()(before), before, True)
