"""Polynomial transcendental functions: accuracy, infinities, NaN, and other builds untouched."""

from __future__ import annotations

import contextlib
import math
import re

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.kernels import host, run
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_context, build_function

FUNCTIONS = {
    "exp": (np.exp, 1e-7),
    "sigmoid": (lambda v: 1 / (1 + np.exp(-v)), 3e-7),
    "tanh": (np.tanh, 5e-7),
    "erf": (np.vectorize(math.erf), 5e-7),
}


def elementwise(name: str, extent: int, dtype: str = "float32") -> tirx.PrimFunc:
    x = te.placeholder((extent,), dtype, "X")
    y = te.compute((extent,), lambda i: getattr(tirx, name)(x[i]), "Y")
    return te.create_prim_func([x, y])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_relative_error(name):
    reference, bound = FUNCTIONS[name]
    x = np.concatenate([np.linspace(-20, 20, 4001), np.logspace(-6, 1, 95)]).astype(np.float32)
    got = run(elementwise(name, len(x)), [x], x.shape)
    exact = reference(x.astype(np.float64))
    assert (np.abs(got - exact) <= bound * np.maximum(np.abs(exact), 1e-30)).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 88.7, 89.0, -104.0, -87.0] * 2, np.float32)
    got = run(elementwise(name, 16), [x], x.shape)
    with np.errstate(over="ignore"):
        exact = FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, exact, rtol=1e-6, atol=3e-38)


def test_lowering_is_ours_only_inside_the_context():
    target = host()
    func = elementwise("exp", 16)
    with build_context(target):
        ours = tvm.compile(func, target=target).mod.inspect_source("ll")
    stock = tvm.compile(func, target=target).mod.inspect_source("ll")
    assert "expf" not in ours and "llvm.exp" not in ours
    assert "expf" in stock or "llvm.exp" in stock


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_vectors_that_are_not_ours_have_stock_values(name, dtype):
    """TVM alone, and numbers of other types: functions without vector code go lane by lane."""
    target = host()
    x = np.linspace(-8, 8, 64).astype(dtype)
    func = elementwise(name, len(x), dtype)
    schedule = tvm.s_tir.Schedule(func)
    schedule.vectorize(schedule.get_loops("Y")[-1])
    exact = FUNCTIONS[name][0](x.astype(np.float64))
    for ours in (build_context(target), contextlib.nullcontext()):
        with ours:
            built = tvm.compile(schedule.mod, target=target)
        y = tvm.runtime.tensor(np.zeros_like(x))
        built(tvm.runtime.tensor(x), y)
        np.testing.assert_allclose(y.numpy(), exact, rtol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["nearbyint", "rsqrt", "erf"])
def test_whole_vectors(name):
    """What has vector code is called for vectors, not lane by lane."""
    built = build_function(elementwise(name, 4096), parse_target("cpu:znver4").target)
    (body,) = re.findall(r"define [^@]*@main_compute_.*?\n}", built.inspect_source("ll"), re.S)
    loads = re.findall(r"load (<16 x float>|float)", body)
    assert loads
    assert set(loads) == {"<16 x float>"}
