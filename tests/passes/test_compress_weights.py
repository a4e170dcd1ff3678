"""Which weights a program has unpacked for a library, and what its functions are given of them."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from tests.cuda.kernels import target
from tests.passes.test_plan_library_calls import FEATURES, LINEAR, add, planned
from tvm_sparse.ops.cuda.two_four import unpacked
from tvm_sparse.ops.marks import LIBRARY
from tvm_sparse.passes.finish.compress_weights import HANDLE, CompressWeights
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.selection.cuda import two_four_options


def module():
    bias = np.full(FEATURES, 0.5, "f4")
    return planned(add, bias, two_four_options.product, LINEAR)


def library_calls(func):
    found = []

    def look(expr):
        if op_name(expr) == "call_tir" and "linear" in expr.args[0].name_hint:
            found.append(expr)

    relax.analysis.post_order_visit(func.body, look)
    return found


def test_a_weight_is_unpacked_and_its_handle_is_given_to_who_reads_it():
    mod = CompressWeights()(LiftWeights({})(module()))
    main = mod["main"]
    *_, handle = main.params
    assert tvm_ffi.structural_equal(handle.ty, HANDLE)
    (call,) = library_calls(main)
    assert call.args[1].fields[-1].same_as(handle)
    func = mod[call.args[0]]
    plan = func.attrs[LIBRARY]
    x, w, *_, out = (int(place) for place in plan["places"])
    assert str(func.params[w].dtype) == "uint8" and out == w + 1 == len(func.params) - 1
    assert x == 0
    prepare = mod["prepare0"]
    assert len(prepare.params) == len(main.params) - 1 - int(main.attrs["num_input"])
    assert [int(e) for e in prepare.ret_ty.shape.values] == list(LINEAR.matrix_shape)
    assert "prepare1" not in {name.name_hint for name in mod.get_global_vars()}


def test_weights_that_stay_in_the_code_ask_nobody():
    mod = CompressWeights()(module().clone())
    assert not [f for f in mod.functions.values() if LIBRARY in (f.attrs or {})]
    assert not [n for n in mod.get_global_vars() if n.name_hint.startswith("prepare")]
    assert library_calls(mod["main"])


def test_without_such_layers_nothing_changes():
    mod = LiftWeights({})(planned(add, np.full(FEATURES, 0.5, "f4")))
    assert tvm_ffi.structural_equal(CompressWeights()(mod), mod)


def test_what_is_unpacked_is_the_matrix():
    format = two_four_options.product(LINEAR, target("sm_90")).format
    rng = np.random.default_rng(0)
    matrix = rng.integers(1, 9, LINEAR.matrix_shape).astype("float16")
    matrix *= Balanced(4, 2).project(rng.random(matrix.shape, dtype="f4"))
    arrays = format.encode(matrix)
    func = unpacked(format, "float16")
    assert isinstance(func, tirx.PrimFunc)
    library = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), "llvm")
    given = [tvm.runtime.tensor(array) for array in arrays.values()]
    found = tvm.runtime.tensor(np.zeros(LINEAR.matrix_shape, "float16"))
    library["main"](*given, found)
    np.testing.assert_array_equal(found.numpy(), matrix)
