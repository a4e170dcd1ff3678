"""FuseTables: which tables a layer's kernel can look up itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax, te

from tests.kernels import host
from tests.passes.modules import operators
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.marks import ELEMENT_WISE, FUSION, LOOKED_UP, OUT_FUSABLE, TABLE
from tvm_sparse.passes.bytes.fuse_tables import AnnotateLookUps, FuseTables
from tvm_sparse.passes.bytes.quantization import quantize
from tvm_sparse.passes.bytes.tabulate_bytes import look_up

MACHINE = replace(machine_of(host()), pack=lambda *a: None, table=lambda *a: None)
ENTRIES = np.random.default_rng(0).permutation(256).astype(np.uint8)


def module(shape=(1, 5, 6, 32), *, layer=True, bounded=True, also=False):
    """Return a module that looks up the bytes of a layer: its sums, scaled and rounded."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "int32" if bounded else "float32"))

    class Rewriter:
        builder_ = builder

    with builder.function("main", [x]):
        with builder.dataflow():
            sums = x
            if layer:
                twice = te.placeholder(shape, str(x.ty.dtype), "X")
                func = te.create_prim_func([twice, te.compute(shape, lambda *i: twice(*i) * 2)])
                func = func.with_attr(FUSION, OUT_FUSABLE).without_attr("global_symbol")
                call = relax.call_tir(builder.add_func(func, "layer"), [x], out_ty=x.ty)
                sums = builder.emit(call)
            floats = builder.emit(relax.op.astype(sums, "float32")) if bounded else sums
            scaled = builder.emit(relax.op.multiply(floats, relax.const(2.0**-9, "float32")))
            made = builder.emit(quantize(scaled, 3, "uint8"))
            found = look_up(Rewriter, made, ENTRIES, "uint8", machine_of(host()))
            results = [found, *([made] if also else [])]
            outputs = [builder.emit_output(result) for result in results]
        builder.emit_func_output(outputs)
    return relax.transform.CanonicalizeBindings()(builder.finalize())


def marked(mod, mark):
    return [f for _, f in mod.functions_items() if f.attrs and mark in f.attrs]


def test_the_layer_looks_up():
    fused = FuseTables(MACHINE)(module())
    assert not marked(fused, TABLE)
    (func,) = marked(AnnotateLookUps()(fused), LOOKED_UP)
    assert func.attrs[FUSION] == ELEMENT_WISE
    assert operators(fused) == operators(module())


@pytest.mark.parametrize(
    "given",
    [{"shape": (1, 5, 6, 24)}, {"layer": False}, {"bounded": False}, {"also": True}],
    ids=["partial vectors", "no layer", "floats", "bytes are read elsewhere"],
)
def test_others_are_left(given):
    before = module(**given)
    tvm.ir.assert_structural_equal(before, FuseTables(MACHINE)(before))


def test_machines_without_tables_are_left():
    before = module()
    for machine in (replace(MACHINE, pack=None), replace(MACHINE, table=None)):
        tvm.ir.assert_structural_equal(before, FuseTables(machine)(before))


def test_what_is_looked_up_is_the_same():
    before = module()
    x = np.random.default_rng(1).integers(-(2**17), 2**17, (1, 5, 6, 32)).astype(np.int32)
    results = []
    for mod in (before, FuseTables(MACHINE)(before)):
        lowered = relax.transform.LegalizeOps()(mod)
        vm = relax.VirtualMachine(tvm.compile(lowered, target=host()), tvm.cpu())
        results.append(vm["main"](tvm.runtime.tensor(x))[0].numpy())
    np.testing.assert_array_equal(*results)
