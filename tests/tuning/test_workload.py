"""Keys of tuning records: the same for every mask of a pattern, another for every other thing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tvm import te, tirx
from tvm.target import Target

from tests.kernels import host, keep_of_bank
from tests.tuning.networks import mlp, tasks
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense
from tvm_sparse.tuning.workload import target_name, workload_of

LINEAR = Contraction((8,), 64, 32)


def key(contraction, format, target=None):
    return workload_of(balanced(contraction, format, target or host()), target or host())


def test_another_mask_of_the_same_pattern_has_the_same_key():
    masks = [keep_of_bank(np.random.default_rng(seed), (32, 64), 4) for seed in (0, 1)]
    assert (masks[0] != masks[1]).any()
    first, second = (key(LINEAR, BalancedFormat.of(mask)) for mask in masks)
    assert first == second


def test_whatever_counts_changes_the_key():
    keys = [
        key(LINEAR, BalancedFormat(32, 64, 4)),
        key(LINEAR, BalancedFormat(32, 64, 3)),
        key(LINEAR, BalancedFormat(32, 64, 4, share=2)),
        key(Contraction((9,), 64, 32), BalancedFormat(32, 64, 4)),
        key(Contraction((tirx.Var("n", "int64"),), 64, 32), BalancedFormat(32, 64, 4)),
        workload_of(dense(LINEAR, DenseFormat(32, 64), host()), host()),
    ]
    assert len({(k.operator, k.computation) for k in keys}) == len(keys)


def test_stride_and_dilation_change_the_key():
    windows = [((1, 1), (1, 1)), ((2, 2), (1, 1)), ((1, 1), (2, 2))]
    found = set()
    for strides, dilation in windows:
        conv = Contraction((1, 4, 4), 16, 16, (3, 3), strides, dilation, (9, 9))
        found.add(workload_of(dense(conv, DenseFormat(16, 144), host()), host()).computation)
    assert len(found) == 3


def test_names_do_not_change_the_key():
    func = dense(LINEAR, DenseFormat(32, 64), host())
    named = func.with_attr("global_symbol", "fused_linear_1")
    assert workload_of(func, host()) == workload_of(named, host())


def test_an_epilogue_changes_the_function_but_not_the_operator():
    body, shape = mlp()
    with_relu, without = (task.workload for task in tasks(body, shape))
    assert with_relu.anchor == without.anchor
    assert with_relu.function != without.function


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_are_part_of_the_target(monkeypatch, threads):
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    assert target_name(host()).endswith(f" {threads} threads")
    monkeypatch.delenv("TVM_NUM_THREADS")
    assert target_name(Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 3})) == (
        "llvm haswell 3 threads"
    )


def test_functions_without_a_mark_have_no_key():
    x = te.placeholder((16,), "float32")
    func = te.create_prim_func([x, te.compute((16,), lambda i: x[i] + 1)])
    assert workload_of(func, host()) is None


def test_keys_are_the_same_in_every_process():
    code = "from tests.tuning.test_workload import *;print(key(LINEAR, BalancedFormat(32, 64, 4)))"
    run = [sys.executable, "-c", code]
    printed = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert printed == f"{key(LINEAR, BalancedFormat(32, 64, 4))}\n"
