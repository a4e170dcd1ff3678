"""LiftWorkspaces: what a function keeps between its kernels is an output that nothing reads."""

from __future__ import annotations

import numpy as np
from tvm import relax, s_tir, te, tirx

from tests.passes.modules import evaluate, module
from tvm_sparse.passes.finish.lift_workspaces import LiftWorkspaces, with_workspaces, workspaces
from tvm_sparse.passes.graph.rewrite import op_name

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def twice(scope="global", rows=2):
    """``f(X, Y)``: Y is X + X + 1, with X + X in an array of the function's own."""
    x = te.placeholder((rows, 3), "float32", name="X")
    doubled = te.compute(x.shape, lambda i, j: x[i, j] + x[i, j], name="doubled")
    y = te.compute(x.shape, lambda i, j: doubled[i, j] + 1, name="Y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]).without_attr("global_symbol"))
    if scope != "global":
        schedule.set_scope(schedule.get_sblock("doubled"), 0, scope)
    return schedule.mod["main"].without_attr("global_symbol")


def calling(func):
    """A network that calls ``func`` twice, one after the other."""

    def body(x):
        builder = relax.BlockBuilder.current()
        var = builder.add_func(func, "twice")
        inner = builder.emit(relax.call_tir(var, [x], out_ty=x.ty))
        return relax.call_tir(var, [inner], out_ty=x.ty)

    return module(body, X.shape)


def calls(mod):
    found = []
    relax.analysis.post_order_visit(
        mod["main"], lambda e: found.append(e) if op_name(e) == "call_tir" else None
    )
    return found


def test_arrays_become_outputs_that_nothing_reads():
    before = calling(twice())
    after = LiftWorkspaces()(before)
    assert [len(call.ty.fields) for call in calls(after)] == [2, 2]
    assert len(after["twice"].params) == 3
    assert not workspaces(after["twice"])
    np.testing.assert_array_equal(evaluate(after, X), evaluate(before, X))
    np.testing.assert_array_equal(evaluate(after, X), 4 * X + 3)


def test_what_is_on_chip_and_what_has_an_open_extent_stays():
    for func in (twice("local"), twice(rows=tirx.Var("n", "int64"))):
        assert workspaces(func) == []
    plain = calling(twice("local"))
    assert LiftWorkspaces()(plain).same_as(plain)


def test_only_what_was_found_is_lifted():
    func = twice()
    (found,) = workspaces(func)
    wider = with_workspaces(func, [found])
    assert wider.params[-1].same_as(found)
    assert [int(e) for e in found.ty.shape] == [2, 3]
