"""Indices with remainders of loops that count down and of quotients: TVM loses their constants."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from tvm import ir, te, tirx
from tvm.sym import Analyzer

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_scheduled
from tvm_sparse.schedules.exact_indices import ExactIndices, exact_division

PLACES = {
    "counts down": (lambda v, _: (14 - v) % 5, True),
    "counts down, behind zero": (lambda v, _: (4 - v) % 5, True),
    "rows that count down": (lambda v, _: (17 - v) // 3, True),
    "a negative scale": (lambda v, _: (12 - v * 2) % 16, True),
    "a negative divisor": (lambda v, _: (v + 46) % -64 + 63, True),
    "rows of a negative divisor": (lambda v, _: (v + 3) // -5 + 4, True),
    "of a quotient": (lambda v, w: ((w + 9) // 2 + v * 2) % 3, True),
    "of a remainder and a constant": (lambda v, w: (v * 4 + w) // 16 * 9 + (v % 4 + 7) // 3, True),
    "of a part of a row": (lambda v, w: v // 8 * 3 + (v % 8 + 17) // 3, True),
    "counts up": (lambda v, w: (v + w + 3) % 5, False),
    "of a remainder": (lambda v, _: v % 12 % 5, False),
}


def picked(place):
    """Return ``y[v, w] = x[place(v, w)]``."""
    x = te.placeholder((64,), "float32", "x")
    y = te.compute((16, 4), lambda v, w: x[place(v, w)], "y")
    return te.create_prim_func([x, y]).with_attr("global_symbol", "main")


@pytest.mark.parametrize(("place", "changed"), PLACES.values(), ids=PLACES)
def test_every_step_reads_its_place(place, changed):
    mod = tvm.IRModule({"main": picked(place)})
    assert tvm_ffi.structural_equal(ExactIndices()(mod)["main"], mod["main"]) != changed
    built = build_scheduled(mod, parse_target("cpu").target)
    x, y = np.arange(64, dtype=np.float32), tvm.runtime.empty((16, 4), "float32")
    built.mod["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(
        y.numpy(), [[x[place(v, w)] for w in range(4)] for v in range(16)]
    )


@pytest.mark.parametrize("by", [5, -5, 8, -1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("kind", "floored"), [(tirx.FloorDiv, int.__floordiv__), (tirx.FloorMod, int.__mod__)]
)
def test_divisions_towards_zero_agree_with_floored_ones(kind, floored, by, known):
    v, analyzer = tirx.Var("v", "int64"), Analyzer()
    if known:
        analyzer.bind(v, ir.Range(-20, 20))
    exact = exact_division(kind(v, tirx.const(by, "int64")), analyzer)
    for value in range(-20, 20):
        number = tirx.const(value, "int64")
        found = tvm_ffi.structural_map(exact, (tirx.Var, lambda _, number=number: number))
        assert int(Analyzer().simplify(found)) == floored(value, by)


class Tiled(torch.nn.Module):
    """Repeats what it then reads backwards, and adds what a concatenation holds twice."""

    def forward(self, x):
        """Return both."""
        flat = x.reshape(-1)
        twice = torch.cat([flat, flat])
        return x.repeat(1, 3).flip(1), torch.cat([flat, flat.flip(0)]) + twice


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.parametrize("shape", [(4, 5), (3, 16)])
def test_networks_that_read_repeated_tensors_backwards(shape, dtype):
    x, model = torch.arange(shape[0] * shape[1], dtype=dtype).reshape(shape), Tiled()
    found = ts.compile(model, (x,), config=ts.Config(measure=False))(x)
    for got, expected in zip(found, model(x), strict=True):
        assert torch.equal(got, expected)
