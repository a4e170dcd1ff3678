"""StackVariables: no call of TVM's allocator for what fits the stack."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tests.kernels import host, run
from tvm_sparse.ops.tensors.axis import flat_view, variable
from tvm_sparse.schedules.build import build_function
from tvm_sparse.schedules.cpu.stack_variables import StackVariables

ALLOCATOR = "TVMBackendAllocWorkspace"


def copy(lanes: int) -> tvm.IRModule:
    """Return a function that copies ``lanes`` elements by way of two variables alike."""
    x = te.placeholder((lanes,), name="X")

    def emit(inputs, outputs):
        with IRBuilder() as builder, T.serial(0, 1):
            source, result = flat_view(inputs[0], lanes), flat_view(outputs[0], lanes)
            first, second = variable("float32", lanes), variable("float32", lanes)
            with T.vectorized(0, lanes) as lane:
                first[lane] = source[lane]
                second[lane] = first[lane] * 2.0
                result[lane] = second[lane] - first[lane]
        return builder.get()

    func = te.create_prim_func([x, te.extern([x.shape], [x], emit, dtype=["float32"])])
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


@pytest.mark.parametrize(("lanes", "small"), [(16, True), (128, True), (256, False)])
def test_small_variables_leave_the_local_scope(lanes, small):
    before = copy(lanes)
    after = StackVariables()(before)
    assert before.script().count("alloc_local") == 2, "the pass wrote into its input"
    assert after.script().count("alloc_local") == (0 if small else 2)
    assert after.script().count("alloc_buffer") == (2 if small else 0)
    tvm.ir.assert_structural_equal(StackVariables()(after), after)


def test_no_allocator_is_called():
    code = build_function(copy(64)["main"], host()).inspect_source("asm")
    assert ALLOCATOR not in code


def test_results_are_the_same():
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(run(copy(64)["main"], [x], (64,)), x)
