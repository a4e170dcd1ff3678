"""Functions of float64: NVRTC's own code for them calls functions and carries between words."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import apply, needs_nvrtc
from tvm_sparse_emulator.executor import execute
from tvm_sparse_emulator.nvrtc import compile_ptx

SOURCE = """
extern "C" __global__ void k(const double* x, const double* y, double* out) {{
  out[threadIdx.x] = {};
}}
"""
FUNCTIONS = {
    "pow(x[threadIdx.x], y[threadIdx.x])": np.power,
    "exp(y[threadIdx.x])": lambda x, y: np.exp(y),
    "log(x[threadIdx.x])": lambda x, y: np.log(x),
    "cbrt(x[threadIdx.x])": lambda x, y: np.cbrt(x),
    "sin(y[threadIdx.x] * 1e6)": lambda x, y: np.sin(y * 1e6),
    "x[threadIdx.x] / y[threadIdx.x]": lambda x, y: x / y,
    "sqrt(x[threadIdx.x])": lambda x, y: np.sqrt(x),
    "fmod(x[threadIdx.x], y[threadIdx.x])": np.fmod,
    "atan2(x[threadIdx.x], y[threadIdx.x])": np.arctan2,
}
EXACT = ("/", "sqrt", "fmod")


@pytest.mark.parametrize("expression", FUNCTIONS)
@needs_nvrtc
def test_functions_of_the_cuda_library(expression):
    """Within two units in the last place, as CUDA promises; what IEEE 754 defines is exact."""
    rng = np.random.default_rng(0)
    x, y = np.exp(rng.uniform(-9, 9, 64)), rng.uniform(-20, 20, 64)
    x[:4], y[:4] = [2, 3, 10, 1], [10, 4, 3, -5]
    found = np.zeros(64)
    ptx = compile_ptx(SOURCE.format(expression), "compute_90")
    execute(ptx, "k", (1, 1, 1), (64, 1, 1), [x, y, found])
    wanted = FUNCTIONS[expression](x, y)
    units = np.abs(found - wanted) / np.spacing(np.abs(wanted))
    assert units.max() <= (0 if any(name in expression for name in EXACT) else 3)
    if expression.startswith("pow"):
        assert found[:4].tolist() == [1024, 81, 1000, 1]


WORDS = np.array([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF], "u4")


def pairs():
    grid = np.array(np.meshgrid(WORDS, WORDS)).reshape(2, -1)
    return grid[0][:48], grid[1][:48]


@pytest.mark.parametrize(("name", "sign"), [("add", 1), ("sub", -1)])
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_sums_of_two_words_carry(name, sign, kind):
    """The low words and their carry, then the high ones: a sum of 64 bits."""
    low, other = pairs()
    high = low[::-1].copy()
    text = f"{name}.cc.{kind} %r30, {{a}}, {{b}}; {name}c.{kind} {{d}}, {{c}}, {{b}}"
    found = apply(text, [low, other, high], np.dtype("u4"))
    whole = low.astype(object) + high.astype(object) * 2**32
    added = other.astype(object) * (2**32 + 1)
    assert found.tolist() == [(w + sign * a) // 2**32 % 2**32 for w, a in zip(whole, added)]


@pytest.mark.parametrize("part", ["lo", "hi"])
def test_products_carry(part):
    a, b = pairs()
    c = np.full_like(a, 0xFFFFFFFF)
    text = f"mad.{part}.cc.u32 %r30, {{a}}, {{b}}, {{c}}; madc.{part}.u32 {{d}}, {{a}}, {{b}}, 0"
    found = apply(text, [a, b, c], np.dtype("u4"))
    wanted = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        word = x * y % 2**32 if part == "lo" else x * y >> 32
        wanted.append((word + (word + 0xFFFFFFFF >> 32)) % 2**32)
    assert found.tolist() == wanted


def test_carries_of_long_words():
    ones = np.full(4, 2**64 - 1, "u8")
    text = "add.cc.u64 %d33, {a}, {b}; addc.u64 {d}, {a}, 5"
    assert apply(text, [ones, np.arange(4).astype("u8")], np.dtype("u8")).tolist() == [4, 5, 5, 5]


@pytest.mark.parametrize(
    ("name", "exact"), [("rcp", lambda x: 1 / x), ("rsqrt", lambda x: x**-0.5)]
)
def test_rough_functions_of_doubles(name, exact):
    x = np.exp(np.linspace(-600, 600, 64))
    found = apply(f"{name}.approx.ftz.f64", [x], np.dtype("f8"))
    assert np.abs(found / exact(x) - 1).max() < 2.0**-19
    assert (found.view("u8") & 0xFFFFFFFF == 0).all()
    least = np.array([5e-324, 0.0, np.inf])
    assert apply(f"{name}.approx.ftz.f64", [least], np.dtype("f8")).tolist() == [np.inf, np.inf, 0]


def test_signs_of_doubles():
    a, b = np.array([-0.0, 2.0, -1.0]), np.array([3.0, -4.0, np.inf])
    assert apply("copysign.f64", [a, b], np.dtype("f8")).tolist() == [-3.0, 4.0, -np.inf]
