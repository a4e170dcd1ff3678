"""Which parameters a library's call takes of a fused function, and what is left behind it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tests.cuda.kernels import target
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.marks import LIBRARY
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.passes.lower.fuse import fused
from tvm_sparse.passes.lower.plan_library_calls import PlanLibraryCalls
from tvm_sparse.selection.cuda import convolution_options, library_options, two_four_options
from tvm_sparse.selection.decisions import Decision, Decisions

ROWS, COLUMNS, FEATURES = 32, 48, 64
X, W, BIAS, RESIDUAL, OUT = range(5)
"""Places in the attribute."""

WIDE = Numerics("float16", "float16", "float32", "float32")
LINEAR = Contraction((ROWS,), COLUMNS, FEATURES, numerics=WIDE)
CONVOLUTION = Contraction(
    (2, 8, 8), COLUMNS, FEATURES, (3, 3), (1, 1), (1, 1), (8, 8), WIDE, (1, 1)
)


def planned(behind, bias=None, find=library_options.product, c=LINEAR, decisions=None):
    """Return the module with a product of halves in fp32, and what ``behind`` makes of it."""
    option = find(c, target("sm_90"))
    builder, kind = relax.BlockBuilder(), relax.TensorType
    x = relax.Var("x", kind(list(c.input_shape), "float16"))
    r = relax.Var("r", kind(list(c.output_shape), "float16"))
    matrix = np.ones(c.matrix_shape, np.float16)
    matrix[:, 2::4] = matrix[:, 3::4] = 0
    arrays = [constant(a, f"layer.weight.{n}") for n, a in option.format.encode(matrix).items()]
    with builder.function("main", [x, r], attrs={"num_input": 2}):
        with builder.dataflow():
            name = builder.add_func(option.build(), "linear")
            ty = kind(list(c.output_shape), "float32")
            call = relax.call_tir(name, [x, *arrays], out_ty=ty)
            y = behind(builder.emit(call), None if bias is None else constant(bias), r)
            result = builder.emit_output(builder.normalize(y))
        builder.emit_func_output(result)
    with target("sm_90"):
        steps = [*fused({}), PlanLibraryCalls(decisions or Decisions())]
        return tvm.transform.Sequential(steps)(builder.finalize())


def plan_of(mod):
    (found,) = [f for f in mod.functions.values() if LIBRARY in (f.attrs or {})]
    return found, found.attrs[LIBRARY]


def add(y, b, _r):
    return relax.op.astype(relax.op.add(y, b), "float16")


def test_an_exact_bias_becomes_a_parameter_in_the_results_type():
    func, plan = plan_of(planned(add, bias=np.full(FEATURES, 0.5, "f4")))
    assert str(plan["dtype"]) == "float16" and "behind" not in plan
    places = [int(p) for p in plan["places"]]
    assert str(func.params[places[BIAS]].dtype) == "float16"
    assert places[OUT] == len(func.params) - 1 and places[RESIDUAL] == -1


def test_another_bias_stays_behind():
    mod = planned(add, bias=np.full(FEATURES, 1 + 2**-20, "f4"))
    _, plan = plan_of(mod)
    assert str(plan["dtype"]) == "float32" and int(plan["places"][BIAS]) == -1
    behind = mod[str(plan["behind"])]
    assert isinstance(behind, tirx.PrimFunc)
    assert [str(p.dtype) for p in behind.params] == ["float32", "float32", "float16"]


def test_a_residual_is_added_to_the_rounded_sums():
    def behind(y, _b, r):
        return relax.op.add(relax.op.astype(y, "float16"), r)

    _, plan = plan_of(planned(behind))
    assert int(plan["places"][RESIDUAL]) >= 0 and "behind" not in plan


def test_one_that_is_added_before_rounding_stays_behind():
    def behind(y, _b, r):
        return relax.op.astype(relax.op.add(y, relax.op.astype(r, "float32")), "float16")

    _, plan = plan_of(planned(behind))
    assert str(plan["dtype"]) == "float32" and int(plan["places"][RESIDUAL]) == -1
    assert "behind" in plan


@pytest.mark.parametrize("operator", [relax.op.nn.relu, relax.op.tanh, relax.op.nn.gelu])
def test_what_a_library_does_not_promise_stays_behind(operator):
    _, plan = plan_of(planned(lambda y, _b, _r: operator(relax.op.astype(y, "float16"))))
    assert str(plan["dtype"]) == "float16" and "behind" in plan


@pytest.mark.parametrize(
    ("find", "c", "chosen", "ours"),
    [
        (convolution_options.convolution, CONVOLUTION, "cudnn", "dense"),
        (two_four_options.product, LINEAR, "cusparselt", "two_four"),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_a_layer_that_no_call_can_be_made_for_is_told_to_be_ours(find, c, chosen, ours, exact):
    """Where all that is read and written has one type, a bias of more digits cannot be in it."""
    decision = Decision("layer", "linear", c.matrix_shape, 0.5, "2:4", chosen, "")
    decision.reason = "modelled; by cuDNN where it is there" if ours == "dense" else "modelled"
    decisions = Decisions([decision], own_us={"layer": 7.0})
    bias = np.full(FEATURES, 0.5 if exact else 1 + 2**-20, "f4")
    mod = planned(add, bias, find, c, decisions)
    plans = [f for f in mod.functions.values() if LIBRARY in (f.attrs or {})]
    assert len(plans) == exact
    assert decision.chosen == (chosen if exact else ours)
    # Its weights stay as they were packed.
    assert decisions.built() == {"layer": chosen}
    if not exact:
        assert decision.modelled_us == 7.0
        assert decision.reason.startswith("modelled; by our own kernel: cu")
        assert "where it is there" not in decision.reason
