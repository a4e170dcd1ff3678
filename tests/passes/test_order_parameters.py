"""Numbers among parameters come in the order of their first use; equal functions become one."""

from __future__ import annotations

import numpy as np
from tvm import relax, te, tirx

from tests.passes.modules import evaluate, module
from tvm_sparse.passes.graph.rewrite import shape_of_type
from tvm_sparse.passes.lower.order_parameters import OrderParameters


def _extent(name):
    return tirx.Var(name, "int64")


def _added(numbers):
    """Return ``f(X: (h * w, 8), numbers, Y)`` that adds one, its two numbers in this order."""
    extents = {name: _extent(name) for name in "hw"}
    x = te.placeholder((extents["h"] * extents["w"], 8), "float32", "X")
    y = te.compute(x.shape, lambda i, j: x[i, j] + tirx.const(1, "float32"), "Y")
    params = [x, *(extents[name] for name in numbers), y]
    return te.create_prim_func(params, "int64").without_attr("global_symbol")


def _network(orders):
    """Return a network that adds one so often, with an order of the numbers for each call."""
    h, w = _extent("h"), _extent("w")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((h, w, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.reshape(x, (h * w, 8)))
            for numbers in orders:
                name = builder.add_func(_added(numbers), "add")
                given = [{"h": h, "w": w}[number] for number in numbers]
                ty = relax.TensorType((h * w, 8), "float32")
                y = builder.emit(relax.call_tir(name, [y, *given], out_ty=ty))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.finalize()


def _functions(mod):
    return {n.name_hint: f for n, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}


def test_functions_that_differ_in_the_order_become_one():
    before = _network(["hw", "wh", "hw"])
    assert len(_functions(before)) == 2
    after = OrderParameters()(before)
    (function,) = _functions(after).values()
    numbers = [p.name for p in function.params if shape_of_type(p.ty) is None]
    assert numbers == ["h", "w"]
    x = np.arange(6 * 8, dtype=np.float32).reshape(2, 3, 8)
    np.testing.assert_array_equal(evaluate(after, x), x.reshape(6, 8) + 3)


def test_networks_that_differ_in_the_order_become_equal():
    mods = [OrderParameters()(_network(orders)) for orders in (["hw", "wh"], ["wh", "wh"])]
    assert mods[0].script() == mods[1].script()


def test_what_has_no_two_numbers_is_left_alone():
    legal = relax.transform.LegalizeOps()(module(relax.op.exp, (_extent("n"), 3)))
    assert OrderParameters()(legal).same_as(legal)
