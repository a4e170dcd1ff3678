"""Equal functions become one: what differs between them, and what must not be touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import tvm
import tvm_ffi
from torch import nn
from tvm import relax, te, tirx

import tvm_sparse as ts
from tests.passes.functions import defined, stored_numbers
from tests.passes.modules import evaluate
from tvm_sparse.passes import on_cpus
from tvm_sparse.passes.finish.lift_weights import LiftWeights
from tvm_sparse.passes.finish.share_functions import ShareFunctions
from tvm_sparse.passes.graph.rewrite import add_function

SHAPE = (8, 4)
X = np.arange(32, dtype=np.float32).reshape(SHAPE) - 9


def chain(*functions: tirx.PrimFunc, extra: tuple[Any, ...] = ()) -> tvm.IRModule:
    """Return ``main(x)``, which gives what each function makes of the result before."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for i, func in enumerate(functions):
                called = add_function(builder, func, f"f{i}")
                y = builder.emit(relax.call_tir(called, [y, *extra], out_ty=x.ty))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.finalize()


def scaled(factor: float, offset: float = 1.0, zero: int = 0) -> tirx.PrimFunc:
    """Return what multiplies, adds, and counts in bytes from ``zero``."""

    def value(t: Any) -> Any:
        wide = tirx.Cast("int32", t * factor + offset) - zero
        return tirx.Cast("float32", tirx.Cast("uint8", wide) - tirx.const(zero, "uint8"))

    return defined(
        lambda x: te.compute(SHAPE, lambda i, j: value(x[i, j]), name="Y"), (SHAPE, "float32")
    )


def kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {v.name_hint: f for v, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}


def test_numbers_that_differ_become_a_tensor():
    before = chain(scaled(2.5, zero=3), scaled(0.5, zero=200), scaled(4.0, zero=7))
    after = ShareFunctions()(before)
    assert list(kernels(after)) == ["f0"]
    weights: dict[str, np.ndarray] = {}
    LiftWeights(weights)(after)
    assert list(weights) == ["numbers", "numbers#2", "numbers#3"]
    # The factor and the zero point, in 32 bits each; the zero point is read in two places.
    assert weights["numbers#2"].tolist() == [np.float32(0.5).view(np.int32), 200]
    assert stored_numbers(kernels(after)["f0"]) == [1.0]
    assert (evaluate(after, X) == evaluate(before, X)).all()
    assert tvm_ffi.structural_equal(after, ShareFunctions()(before))
    assert tvm_ffi.structural_equal(ShareFunctions()(after), after)


def test_equal_functions_need_no_tensor():
    after = ShareFunctions()(chain(scaled(2.0), scaled(2.0)))
    assert list(kernels(after)) == ["f0"] and len(kernels(after)["f0"].params) == 2


def test_other_code_stays_apart():
    by_row = defined(
        lambda x: te.compute(SHAPE, lambda i, j: x[tirx.max(i - 1, 0), j] * 2.0), (SHAPE, "float32")
    )
    further = defined(
        lambda x: te.compute(SHAPE, lambda i, j: x[tirx.max(i - 2, 0), j] * 3.0), (SHAPE, "float32")
    )
    before = chain(scaled(2.0), by_row, further)
    assert ShareFunctions()(before).same_as(before)


def test_functions_of_several_results_and_of_symbols():
    n = tirx.Var("n", "int64")

    def func(factor: float) -> tirx.PrimFunc:
        m = tirx.Var("m", "int64")
        return defined(
            lambda x: [
                te.compute((m,), lambda i: x[i] * factor, name="Y"),
                te.compute((m,), lambda i: x[i] + factor, name="Z"),
            ],
            ((m,), "float32"),
        )

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((n,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for i, factor in enumerate((2.0, 3.0)):
                called = add_function(builder, func(factor), f"f{i}")
                both = builder.emit(relax.call_tir(called, [y], out_ty=[x.ty, x.ty]))
                first, second = (builder.emit(relax.TupleGetItem(both, k)) for k in (0, 1))
                y = builder.emit(relax.op.add(first, second))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    before = builder.finalize()
    after = ShareFunctions()(before)
    assert len(kernels(after)) == 1
    row = X.reshape(-1)
    assert (evaluate(after, row) == evaluate(before, row)).all()


def test_calls_in_place():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        y = builder.emit(relax.op.add(x, x))
        for factor in (2.0, 3.0):
            called = add_function(builder, scaled(factor), "f")
            room = builder.emit(relax.op.zeros(SHAPE, "float32"))
            y = builder.emit(relax.op.call_tir_inplace(called, [y, room], 1, out_ty=x.ty))
        builder.emit_func_output(y)
    before = builder.finalize()
    after = ShareFunctions()(before)
    assert len(kernels(after)) == 1
    assert (evaluate(after, X) == evaluate(before, X)).all()


def test_functions_that_are_called_otherwise_stay():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            first, second = (add_function(builder, scaled(f), "f") for f in (2.0, 3.0))
            y = builder.emit(relax.call_tir(first, [x], out_ty=x.ty))
            y = builder.emit(relax.op.call_tir_with_grad(second, [y], x.ty, "gradient"))
            out = builder.emit_output(builder.emit(relax.call_tir(second, [y], out_ty=x.ty)))
        builder.emit_func_output(out)
    before = builder.finalize()
    assert ShareFunctions()(before).same_as(before)


class Block(nn.Module):
    """Widened, scaled by a number of its own, and added to the input."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.wide, self.back, self.factor = nn.Linear(32, 64), nn.Linear(64, 32), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.back(nn.functional.gelu(self.wide(x) * self.factor))


def test_equal_layers_share_kernels_and_keep_their_rows(monkeypatch):
    torch.manual_seed(0)
    model, x = nn.Sequential(*map(Block, (0.3, 0.7, 0.9))).eval(), torch.randn(8, 32)
    config = ts.Config(measure=False)
    library = ts.compile(model, (x,), config=config)
    kernels = library.profile(x, repeat=2)
    layers = [f"{block}.{name}" for block in range(3) for name in ("wide", "back")]
    assert [k.layer for k in kernels] == layers
    assert all(k.us > 0 for k in kernels)
    assert len({k.function for k in kernels}) == 2

    monkeypatch.setattr(on_cpus, "ShareFunctions", lambda: tvm.transform.Sequential([]))
    apart = ts.compile(model, (x,), config=config)
    assert len({k.function for k in apart.kernels}) == 4
    assert [(k.layer, k.rule) for k in apart.kernels] == [(k.layer, k.rule) for k in kernels]
    assert torch.equal(library(x), apart(x))
    assert np.allclose(library(x), model(x).detach(), atol=1e-5)
