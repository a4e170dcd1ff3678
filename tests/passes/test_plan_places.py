"""Open programs ask for as much memory as closed ones do, whatever largest extents they have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.export import Dim
from tvm import relax, te

import tvm_sparse as ts
from benchmarks.papers.memory import planned_bytes
from tests.opened.layers import Masked
from tvm_sparse.passes.finish.plan_places import PlanPlaces

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), Masked(64), nn.Linear(64, 16))
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("most", [None, 4_000, 100_000])
def test_memory_is_that_of_the_closed_program(most):
    model = network()
    axes = {0: Dim("batch", max=most), 1: Dim("steps", max=most)}
    opened = ts.compile(model, (torch.randn(2, 20, 16),), dynamic_shapes=(axes,), config=CONFIG)
    for shape in ((1, 3, 16), (5, 40, 16)):
        x = torch.randn(*shape)
        closed = ts.compile(model, (x,), config=CONFIG)
        assert planned_bytes(opened, x) <= 1.1 * planned_bytes(closed, x) + 4096
        np.testing.assert_allclose(opened(x.numpy()), model(x), atol=1e-5)


BEFORE = [
    relax.transform.LegalizeOps(),
    relax.transform.RemovePurityChecking(),
    relax.transform.CallTIRRewrite(),
]


def test_little_memory_is_taken_whole():
    """Places that no call outgrows are not taken anew for a new shape."""
    axes = {0: Dim("batch", max=8), 1: Dim("steps", max=64)}
    opened = ts.compile(network(), (torch.randn(2, 20, 16),), dynamic_shapes=(axes,), config=CONFIG)
    sizes = {planned_bytes(opened, torch.randn(*shape)) for shape in ((1, 3, 16), (2, 3, 16))}
    results = {3 * 16 * 4, 2 * 3 * 16 * 4}
    assert len(sizes) == 2 and max(sizes) - min(sizes) == max(results) - min(results)


def twice(x):
    return te.compute(x.shape, lambda *i: x[i] * 2, name="twice")


def late():
    """A function with an extent of its inputs, and one that is known once a tensor was computed."""
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    late = tvm.tirx.Var("late", "int64")
    x, k = (relax.Var(s.name, relax.TensorType((s,), "float32")) for s in (n, m))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, k]):
        a = builder.emit_te(twice, x)
        b = builder.emit_te(twice, a)
        c = builder.emit_te(twice, b)
        found = builder.emit(relax.op.unique(k))
        cast = builder.match_cast(found, relax.TensorType((late,), "float32"))
        d = builder.emit_te(twice, cast)
        e = builder.emit_te(twice, d)
        f = builder.emit_te(twice, e)
        builder.emit_func_output(relax.Tuple([c, f]))
    return builder.get()


@pytest.mark.parametrize("count", [1, 7, 400])
def test_extents_that_are_computed_have_places_of_their_own(count):
    steps = [
        *BEFORE,
        PlanPlaces(),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]
    target = tvm.target.Target("llvm")
    with target:
        lowered = tvm.transform.Sequential(steps)(late())
        built = relax.build(lowered, target=target, relax_pipeline=None)
    vm = relax.VirtualMachine(built, tvm.cpu())
    x, k = np.arange(3, dtype=np.float32), np.arange(count, dtype=np.float32)
    c, f = vm["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(k))
    np.testing.assert_array_equal(c.numpy(), 8 * x)
    np.testing.assert_array_equal(f.numpy(), 8 * k)
