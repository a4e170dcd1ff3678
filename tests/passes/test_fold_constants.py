"""Constant folding: values, names, and what is not constant."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax
from tvm.ir import GenericConst

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.graph.rewrite import constant, name_of, op_name

W = np.array([[1.0, -2.0, 0.0], [3.0, 4.0, -5.0]], np.float32)
M = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], np.float32)
R = relax.op


@pytest.mark.parametrize(
    "fold",
    [
        R.multiply,
        lambda w, m: R.permute_dims(R.add(w, m)),
        lambda w, m: R.reshape(R.subtract(w, m), (3, 2)),
        lambda w, m: R.broadcast_to(R.reshape(R.maximum(w, m), (1, 2, 3)), (4, 2, 3)),
        lambda w, m: R.permute_dims(R.expand_dims(R.negative(w), 0), (2, 0, 1)),
        lambda w, m: R.add(
            R.strided_slice(w, [1], [2], [0], [-1]), R.strided_slice(m, [1], [1], [9])
        ),
    ],
)
def test_values_are_those_of_the_graph(fold):
    def body(x):
        return R.add(R.max(fold(constant(W), constant(M)), axis=[0]), x)

    before = module(body, (1,))
    after = FoldConstants()(before)
    assert operators(after) == {"max": 1, "add": 1}
    x = np.ones(1, np.float32)
    assert (evaluate(after, x) == evaluate(before, x)).all()


def test_a_masked_weight_keeps_the_weights_name():
    before = module(
        lambda x: R.matmul(x, R.multiply(constant(W, "fc.weight_orig"), constant(M, "fc.mask"))),
        (5, 2),
    )
    (call,) = [b.value for b in FoldConstants()(before)["main"].body.blocks[0].bindings]
    assert name_of(call.args[1]) == "fc.weight_orig"
    assert (call.args[1].value.numpy() == W * M).all()


def test_inputs_are_left_alone():
    before = module(lambda x: R.multiply(x, constant(W)), (2, 3))
    assert operators(FoldConstants()(before)) == {"multiply": 1}


def test_a_weight_that_is_read_often_is_moved_once():
    weight = constant(W, "w")

    def body(x):
        once = R.matmul(R.matmul(x, R.permute_dims(weight)), weight)
        return R.matmul(once, R.permute_dims(weight))

    after = FoldConstants()(module(body, (5, 3)))
    products = [
        b.value for b in after["main"].body.blocks[0].bindings if op_name(b.value) == "matmul"
    ]
    first, second, third = (call.args[1] for call in products)
    assert first.value.data_ptr() == third.value.data_ptr()
    assert (first.value.numpy() == W.T).all()
    assert (second.value.numpy() == W).all()


def test_a_slice_of_a_weight_tells_which():
    def body(x):
        gates = constant(np.stack([W, M]), "lstm.weight")
        second = R.squeeze(R.strided_slice(gates, [0], [1], [2]), [0])
        whole = R.strided_slice(gates, [0], [0], [2])
        return R.add(R.max(R.multiply(second, R.max(whole, axis=[0]))), x)

    names = []
    after = FoldConstants()(module(body, (1,)))
    relax.analysis.post_order_visit(
        after["main"].body,
        lambda e: names.append(name_of(e)) if isinstance(e, GenericConst) else None,
    )
    assert sorted(names) == ["lstm.weight", "lstm.weight[1:2]"]


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        (([0], [0], [1]), "w[0:1]"),
        (([0], [1], [2**63 - 1]), "w[1:2]"),
        (([1], [-2], [3]), "w[:, 1:3]"),
        (([1, 0], [0, 1], [2, 9]), "w[1:2, 0:2]"),
    ],
)
def test_the_part_is_named_as_it_would_be_indexed(bounds, named):
    body = module(lambda x: R.add(R.max(R.strided_slice(constant(W, "w"), *bounds)), x), (1,))
    after, found = FoldConstants()(body), []
    relax.analysis.post_order_visit(
        after["main"].body, lambda e: found.append(e) if isinstance(e, GenericConst) else None
    )
    assert [name_of(c) for c in found] == [named]
    assert found[0].value.shape == eval(named, {"w": W}).shape


def test_the_type_is_the_call_s():
    """``zeros_like`` and ``ones_like`` can have a type of their own."""
    body = module(lambda x: R.multiply(x, R.ones_like(constant(W), "int32")), (2, 3), dtype="int32")
    (binding,) = FoldConstants()(body)["main"].body.blocks[0].bindings[:1]
    assert op_name(binding.value) == "multiply"
    assert binding.value.args[1].value.dtype == "int32"


@pytest.mark.parametrize("name", ["equal", "greater", "greater_equal", "less", "not_equal"])
def test_comparisons_of_integers_choose_an_index(name):
    index = np.array([-1, 0, 3, -4])

    def body(x):
        compared = getattr(R, name)(constant(index), constant(np.array(0)))
        return R.add(x, R.where(compared, constant(index + 4), constant(index)))

    before = module(body, (4,), dtype="int64")
    after = FoldConstants()(before)
    assert operators(after) == {"add": 1}
    x = np.arange(4)
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))


def test_choices_of_floats_are_folded():
    before = module(lambda x: R.add(x, R.where(constant(M > 0), constant(W), constant(M))), (2, 3))
    after = FoldConstants()(before)
    assert operators(after) == {"add": 1}
    (call,) = [b.value for b in after["main"].body.blocks[0].bindings]
    assert (call.args[1].value.numpy() == np.where(M > 0, W, M)).all()


def test_a_weight_that_a_condition_masks_keeps_the_weights_name():
    kept, none = constant(M != 0, "fc.parametrizations.weight.0.mask"), relax.const(0.0, "float32")
    weight = constant(W, "fc.parametrizations.weight.original")
    after = FoldConstants()(module(lambda x: R.matmul(x, R.where(kept, weight, none)), (5, 2)))
    (call,) = [b.value for b in after["main"].body.blocks[0].bindings]
    assert name_of(call.args[1]) == "fc.parametrizations.weight.original"
    assert (call.args[1].value.numpy() == W * M).all()


def test_the_name_of_a_weight_goes_before_its_masks():
    product = R.multiply(constant(M, "fc.weight_mask"), constant(W, "fc.weight_orig"))
    after = FoldConstants()(module(lambda x: R.matmul(x, product), (5, 2)))
    (call,) = [b.value for b in after["main"].body.blocks[0].bindings]
    assert name_of(call.args[1]) == "fc.weight_orig"
