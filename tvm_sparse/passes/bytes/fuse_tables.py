"""Tables are looked up where a layer makes the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import INTEGER_SUMS
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.bytes.byte_table import BYTE, looked_up
from tvm_sparse.ops.bytes.quantize import BOUND
from tvm_sparse.ops.marks import ELEMENT_WISE, FUSION, LOOKED_UP, OUT_FUSABLE, TABLE
from tvm_sparse.passes.bytes.magnitudes import Magnitudes
from tvm_sparse.passes.bytes.quantization import zero_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    count_uses,
    op_name,
    rewrite,
    same_shape,
    shape_of,
    static_shape,
)
from tvm_sparse.schedules.blocks import map_functions


class _FuseTablesRule:
    """The rule, with what reads what before the module is rewritten."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod, self.magnitudes = mod, Magnitudes(mod)
        self.uses, self.bound = count_uses(mod["main"]), relax.analysis.get_var2val(mod["main"])

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) != "call_tir" or TABLE not in (self.mod[call.args[0]].attrs or {}):
            return None
        bytes_, entries = rewriter.original.args[1].fields
        if not self._made(bytes_):
            return None
        dtype = str(call.ty.dtype)
        return rewriter.builder_.call_te(
            lambda t, e: looked_up(t, e, dtype),
            *(rewriter.visit_expr(bytes_), constant(array_of(entries).view(BYTE))),
            primfunc_name_hint="looked_up",
            primfunc_attrs={LOOKED_UP: True},
        )

    def _made(self, bytes_: Any) -> bool:
        """Whether a layer's kernel makes ``bytes_``, in whole vectors of bounded steps."""
        call, shape = self.bound.get(bytes_), static_shape(bytes_)
        if op_name(call) != "quantize" or zero_of(call) is None or self.uses[bytes_] != 1:
            return False
        if shape is None or shape[-1] % LANES or self.magnitudes.of(call.args[0]) >= BOUND:
            return False
        return self._layer(call.args[0], bytes_)

    def _layer(self, expr: Any, whole: Any) -> bool:
        """Whether TVM fuses what makes ``expr``, of the shape of ``whole``, with a layer."""
        call = self.bound.get(expr)
        if isinstance(expr, GenericConst) or self.uses.get(expr) != 1:
            return False
        if not same_shape(shape_of(expr), shape_of(whole)):
            return False
        if op_name(call) == "call_tir":
            layer = (self.mod[call.args[0]].attrs or {}).get(FUSION) == OUT_FUSABLE
            return layer and str(expr.ty.dtype) == INTEGER_SUMS
        return op_name(call) in ELEMENTWISE and any(self._layer(a, whole) for a in call.args)


@tvm.transform.module_pass(opt_level=0, name="FuseTables")
@dataclass(frozen=True)
class FuseTables:
    """Look up the bytes of a layer before it stores them.

    before: ``byte_table(quantize(add(layer(x), b)), table)``
    after:  ``looked_up(quantize(add(layer(x), b)), table)``, which TVM fuses with the layer

    On machines that make bytes of several vectors at once, which they look up so
    (:class:`~tvm_sparse.schedules.cpu.pack_bytes.PackBytes`). For layers of integers, whose steps
    are bounded.
    """

    machine: Machine

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer kernels."""
        if not (self.machine.pack and self.machine.table):
            return mod
        return rewrite(mod, _FuseTablesRule(mod))


@tvm.transform.module_pass(opt_level=0, name="AnnotateLookUps")
class AnnotateLookUps:
    """Say of what :class:`FuseTables` made that it is element-wise.

    Runs behind ``AnnotateTIROpPattern``, which sees a load from anywhere, and takes a pattern of
    zero for none.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with the patterns."""

        def annotated(func: Any) -> Any:
            looks_up = LOOKED_UP in (func.attrs or {})
            return func.with_attr(FUSION, ELEMENT_WISE) if looks_up else func

        return map_functions(mod, annotated)
