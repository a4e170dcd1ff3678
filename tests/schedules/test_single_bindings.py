"""Every variable is bound once in a function."""

from __future__ import annotations

from tvm import ir, s_tir, te, tirx

from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.ieee import let
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.rule import ApplySchedules
from tvm_sparse.schedules.single_bindings import SingleBindings


def test_what_is_written_twice_has_two_variables():
    x = te.placeholder((8,), "float32", "X")
    y = te.compute((8,), lambda i: let(x[i] + 1, lambda v: v * v), "Y")
    func = te.create_prim_func([x, y])
    twice = tirx.PrimFunc(func.params, tirx.SeqStmt([func.body, func.body]), attrs=func.attrs)
    module = ir.IRModule({"main": twice})
    before, after = (nodes(m["main"].body, tirx.Let) for m in (module, SingleBindings()(module)))
    assert before[0].var.same_as(before[1].var)
    assert not after[0].var.same_as(after[1].var)


def test_others_stay():
    x = te.placeholder((8,), "float32", "X")
    func = te.create_prim_func([x, te.compute((8,), lambda i: x[i] + 1, "Y")])
    assert SingleBindings()(ir.IRModule({"main": func}))["main"].same_as(func)


def test_a_scheduled_function_can_be_scheduled_on():
    """TVM refuses a function in which inlining wrote one binding into two places."""
    x = te.placeholder((64,), "float32", "X")
    v = te.compute((64,), lambda i: let(x[i] + 1, lambda v: v * v), "V")
    y = te.compute((64,), lambda i: tirx.if_then_else(v[i] > 0, v[i], x[i]), "Y")
    module = ir.IRModule({"main": te.create_prim_func([x, y])})
    target = parse_target("cpu").target
    scheduled = ApplySchedules(target, rules_for(target))(module)["main"]
    assert len(nodes(scheduled.body, tirx.Let)) > 1
    s_tir.Schedule(scheduled)
