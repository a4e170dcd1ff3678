"""RoundDirectly: the instruction that rounds gives what two additions give."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.kernels import host
from tvm_sparse.machine.registry import MACHINES, machine_of
from tvm_sparse.ops.bytes.quantize import BOUND, Scale, quantized, whole_steps
from tvm_sparse.ops.bytes.rounding import Nearest, nearest
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.build import build_function
from tvm_sparse.schedules.cpu.round_directly import RoundDirectly

rounds = pytest.mark.skipif(not machine_of(host()).rounds, reason="no instruction rounds")
LARGEST = float(np.nextafter(np.float32(BOUND), np.float32(0)))
SCALES = [Scale("uint8", 1.0, z) for z in (0, 114, 255)]
SCALES += [Scale("int8", 1.0, z) for z in (-128, 0, 127)]


def definition(make, size=1024):
    x = te.placeholder((size,), "float32", "X")
    return te.create_prim_func([x, make(x)])


def plain_nearest(x):
    return te.compute(x.shape, lambda i: nearest(x[i]), "nearest")


def changed(func):
    return RoundDirectly()(tvm.IRModule({"main": func}))["main"]


def calls(func):
    name = tvm.ir.Op.get("tirx.call_llvm_pure_intrin")
    return [c for c in nodes(func.body, tvm.ir.Call) if c.op.same_as(name)]


def both(func, x):
    """Return the results without and with the instruction."""
    found = []
    for one in (func, changed(func)):
        module = tvm.compile(tvm.IRModule({"main": one}), host()).mod
        out = tvm.runtime.tensor(np.zeros_like(x))
        module["main"](tvm.runtime.tensor(x), out)
        found.append(out.numpy())
    return found


def ties(bound):
    """Return steps around each limit of bytes, ties among them, and the largest that there are."""
    x = (np.arange(4096) / 8 - 256).astype(np.float32)
    x[:6] = -LARGEST, LARGEST, 0.0, -0.0, 2.0**22, -(2.0**22)
    if bound == math.inf:
        x[6:12] = np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45
    return x


@rounds
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("bound", [LARGEST, math.inf])
def test_whole_steps_are_the_same(scale, bound):
    x = ties(bound)
    func = definition(lambda t: whole_steps(t, scale, bound), x.size)
    assert len(calls(changed(func))) == 1
    np.testing.assert_array_equal(*both(func, x))


@rounds
def test_integers_without_limits_are_the_same():
    x = ties(LARGEST)[6:]
    x[:2] = 2.0**22 - 0.5, 0.5 - 2.0**22
    func = definition(plain_nearest, x.size)
    assert len(calls(changed(func))) == 1
    two, one = both(func, x)
    np.testing.assert_array_equal(two, one)
    np.testing.assert_array_equal(one, np.rint(x))


@rounds
def test_code_has_the_instruction_in_vectors():
    func = definition(lambda t: whole_steps(t, SCALES[1], bound=LARGEST))
    module = build_function(func, host())
    assert "@llvm.roundeven.v" in module.inspect_source("ll")


def test_nothing_else_changes():
    func = definition(lambda t: quantized(t, SCALES[1]))
    assert changed(func).same_as(func)
    x = tirx.Var("x", "float32")
    whole = tirx.const(1.5 * 2.0**23, "float32")
    for other in (x, x - whole, (x + whole) - whole, tirx.reinterpret("float32", x) - whole):
        assert Nearest.of(other) is None


def test_a_machine_without_the_instruction_adds_twice():
    func = definition(lambda t: whole_steps(t, SCALES[0], bound=LARGEST))
    sse2 = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"})
    assert not machine_of(sse2).rounds
    assert "roundeven" not in build_function(func, sse2).inspect_source("ll")
    assert [m.name for m in MACHINES if not m.rounds] == ["plain CPU"]
