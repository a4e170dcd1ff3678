"""Logarithms, circular functions and remainders of whole vectors: accuracy, edges, and nests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tvm import te, tirx

from tests.kernels import run

ULP = float(np.finfo(np.float32).eps)

ONE_OPERAND = {
    "log": (np.log, 1),
    "log10": (np.log10, 2),
    "log1p": (np.log1p, 2),
    "asinh": (np.arcsinh, 2),
    "acosh": (np.arccosh, 2),
    "atanh": (np.arctanh, 2),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 2.5),
    "asin": (np.arcsin, 2.5),
    "acos": (np.arccos, 2.5),
    "atan": (np.arctan, 2),
}
"""NumPy's function, and how many units in the last place ours may be off."""

EDGES = np.array(
    [0.0, 1e-45, 1e-38, 1e-8, 0.5, 1.0, 1.5, 2.0, 1e8, 3.0e38, np.inf, np.nan], np.float32
)
EDGES = np.concatenate([EDGES, -EDGES])


def built(operands: int, value, *arrays: np.ndarray) -> np.ndarray:
    """Return ``value`` of elements of ``arrays``, computed by a kernel."""
    inputs = [te.placeholder(arrays[0].shape, "float32", f"X{i}") for i in range(operands)]
    y = te.compute(arrays[0].shape, lambda i: value(*[x[i] for x in inputs]), "Y")
    return run(te.create_prim_func([*inputs, y]), list(arrays), arrays[0].shape)


def any_floats(count: int, seed: int = 0) -> np.ndarray:
    """Return fp32 numbers of all sizes and both signs."""
    bits = np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)
    return bits.view(np.float32)


def call(name: str):
    return lambda *operands: tirx.call_intrin("float32", f"tirx.{name}", *operands)


@pytest.mark.parametrize("name", ONE_OPERAND)
def test_every_size_of_number(name):
    exact, ulps = ONE_OPERAND[name]
    rng = np.random.default_rng(1)
    near = np.concatenate([rng.uniform(-1, 1, 2000), rng.normal(0, 30, 2000)])
    x = np.concatenate([EDGES, any_floats(4072), near.astype(np.float32)])
    found = built(1, call(name), x)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    infinite = np.isinf(wanted)
    assert np.array_equal(found[infinite], wanted[infinite])
    some = np.isfinite(wanted)
    off = np.abs(found[some].astype(np.float64) - wanted[some])
    assert (off <= ulps * ULP * np.abs(wanted[some]) + 1e-44).all()


@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "asinh", "atanh"])
def test_zeros_keep_their_sign(name):
    found = built(1, call(name), np.array([0.0, -0.0] * 16, np.float32))
    assert np.array_equal(np.signbit(found), np.signbit([0.0, -0.0] * 16))


def test_angles_of_points():
    pairs = np.array(list(itertools.product(EDGES, EDGES)), np.float32)
    some = any_floats(8000).reshape(-1, 2)
    y, x = np.concatenate([pairs, some]).T.copy()
    found = built(2, call("atan2"), y, x)
    with np.errstate(invalid="ignore"):
        wanted = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    known = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found[known]), np.signbit(wanted[known]))
    off = np.abs(found[known] - wanted[known])
    assert (off <= 2 * ULP * np.abs(wanted[known]) + 1e-44).all()


def test_remainders_are_exact():
    pairs = np.array(list(itertools.product(EDGES, EDGES)), np.float32)
    some = any_floats(40000, seed=2).reshape(-1, 2)
    x, y = np.concatenate([pairs, some]).T.copy()
    found = built(2, call("fmod"), x, y)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(x, y)
    np.testing.assert_array_equal(found, wanted)
    known = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


NESTS = {
    "sin(sin(sin))": (["sin"] * 3, lambda x: np.sin(np.sin(np.sin(x)))),
    "log1p(log1p(exp))": (["exp", "log1p", "log1p"], lambda x: np.log1p(np.log1p(np.exp(x)))),
    "tanh(log1p(exp))": (["exp", "log1p", "tanh"], lambda x: np.tanh(np.log1p(np.exp(x)))),
    "atan(tan(atan))": (["atan", "tan", "atan"], np.arctan),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("nest", NESTS)
def test_functions_of_functions(nest):
    """TVM's time is exponential in bindings within bindings: such nests must not reach it."""
    names, exact = NESTS[nest]
    x = np.linspace(-1.4, 1.4, 256).astype(np.float32)

    def value(v):
        for name in names:
            v = call(name)(v)
        return v

    np.testing.assert_allclose(built(1, value, x), exact(x.astype(np.float64)), rtol=1e-5)


FAR = 1 << 40
"""Elements behind an array, where there is no memory."""


@pytest.mark.parametrize("name", [*ONE_OPERAND, "exp", "erf", "tanh", "sigmoid", "fmod", "pow"])
def test_what_is_read_under_a_condition_alone_is_not_read_before(name):
    x = np.linspace(1.5, 2, 64).astype(np.float32)
    inputs = te.placeholder((64,), "float32", "X")
    more = [tirx.const(2, "float32")] * (name in ("fmod", "pow"))

    def values(read):
        return te.compute((64,), lambda i: call(name)(call("sin")(read(i)), *more), "Y")

    def ahead(i):
        place = tirx.if_then_else(i < 63, i + 1, i + FAR)
        return tirx.if_then_else(i < 63, inputs[place], tirx.const(1, "float32"))

    found = run(te.create_prim_func([inputs, values(ahead)]), [x], x.shape)
    plain = te.create_prim_func([inputs, values(lambda i: inputs[i])])
    wanted = run(plain, [np.append(x[1:], np.float32(1))], x.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
