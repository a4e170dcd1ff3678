"""Weights leave the code: order, sharing, names, and scalars that stay."""

from __future__ import annotations

import numpy as np
from tvm import relax

from tests.passes.modules import module, operators
from tvm_sparse.passes.canonical.bind_weights import BindWeights
from tvm_sparse.passes.finish.lift_weights import NUMBERS, LiftWeights
from tvm_sparse.passes.graph.rewrite import constant

W = np.arange(12, dtype=np.float32).reshape(3, 4)
R = relax.op


def test_constants_become_parameters_once():
    weight = constant(W, "fc.weight")
    before = module(lambda x: R.add(R.multiply(x, weight), weight), (3, 4))
    weights: dict[str, np.ndarray] = {}
    after = LiftWeights(weights)(before)
    assert list(weights) == ["fc.weight"]
    assert [p.name for p in after["main"].params] == ["x0", "fc.weight"]
    assert int(after["main"].attrs["num_input"]) == 1
    assert operators(after) == {"multiply": 1, "add": 1}


def test_scalars_stay_and_names_stay_apart():
    def body(x):
        scaled = R.multiply(x, relax.const(2.0, "float32"))
        return R.add(R.add(scaled, constant(W, "w")), constant(W + 1, "w"))

    weights: dict[str, np.ndarray] = {}
    LiftWeights(weights)(module(body, (3, 4)))
    assert list(weights) == ["w", "w#2"]
    assert (weights["w#2"] == W + 1).all()


def test_binding_undoes_lifting():
    before = module(lambda x: R.multiply(x, constant(W, "w")), (3, 4))
    weights: dict[str, np.ndarray] = {}
    lifted = LiftWeights(weights)(before)
    bound = BindWeights(weights, 1)(lifted)
    assert [p.name for p in bound["main"].params] == ["x0"]
    assert "num_input" not in (bound["main"].attrs or {})


def test_numbers_of_calls_are_lifted_however_few():
    few = constant(np.array([7], np.int32), NUMBERS)
    weights: dict[str, np.ndarray] = {}
    LiftWeights(weights)(module(lambda x: R.multiply(x, R.astype(few, "float32")), (3, 4)))
    assert weights["numbers"].tolist() == [7]
