"""Tasks: one a distinct function, with its layers, its calls and valid arguments."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx

from tests.kernels import host
from tests.tuning.networks import linear, lowered, mlp, relu, tasks, weights
from tvm_sparse.tuning import operands
from tvm_sparse.tuning.tasks import calls_of, extract


def test_equal_functions_are_one_task():
    body, shape = mlp()
    first, last = tasks(body, shape)
    assert (first.layers, first.calls) == (("a", "b"), 2)
    assert (last.layers, last.calls) == (("c",), 1)
    assert first.workload.operator == last.workload.operator == "balanced"


def test_a_re_pruned_network_has_the_same_tasks():
    keys = [[t.workload for t in tasks(*mlp(seed))] for seed in (0, 10)]
    assert keys[0] == keys[1]


def test_dense_layers_are_tasks_too():
    body, shape = mlp()
    assert {t.workload.operator for t in tasks(body, shape, sparse=False)} == {"dense"}


def test_arguments_are_the_layer_s_own_indices():
    (task,) = tasks(lambda x: relu(linear(x, weights(3), "a")), (8, 64))
    integer = [a for a in task.fixed.values() if a.dtype == np.int32]
    assert len(integer) == 1
    assert task.outputs == 1
    assert len(task.func.params) == 1 + len(task.fixed) + task.outputs


def test_functions_without_an_operator_of_ours_are_no_tasks():
    assert tasks(lambda x: relax.op.nn.softmax(x, axis=-1), (8, 64)) == []


@pytest.mark.parametrize("lead", [1, 2])
def test_open_extents_are_skipped_with_the_way_out(lead):
    reasons = {}
    opened = [tirx.Var(f"n{i}", "int64") for i in range(lead)]
    mod = lowered(lambda x: linear(x, weights(0), "a"), (*opened, 64))
    assert extract(mod, host(), reasons.__setitem__) == []
    assert {reason.partition(";")[0] for reason in reasons.values()} == {"its extents are open"}


def test_what_cannot_be_measured_is_skipped_with_the_reason(monkeypatch):
    reasons = {}
    monkeypatch.setattr(operands, "unmeasurable", lambda func: "no arguments")
    assert extract(lowered(*mlp()), host(), reasons.__setitem__) == []
    assert set(reasons.values()) == {"no arguments"}


def test_calls_are_in_order_of_the_network():
    body, shape = mlp()
    assert [c.layers for c in calls_of(lowered(body, shape))] == [("a",), ("b",), ("c",)]
