"""Contractions of floats multiply narrower ones, where the user says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.target import Target

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT32, FLOAT_SUMS, Numerics
from tvm_sparse.machine.engine.registry import supported
from tvm_sparse.ops.bytes.halves import rounded
from tvm_sparse.passes.bytes.dynamic_meaning import means_bytes
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS, is_channels_last, numerics_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    layer_name,
    name_of,
    op_name,
    rewrite,
    shape_of,
)


class _RoundOperandsRule:
    """The rule; remembers what was rounded, so that layers with the same input share it."""

    def __init__(
        self, numerics: Numerics, target: Target, note: Callable[[str, str], None]
    ) -> None:
        self.numerics, self.target, self.note = numerics, target, note
        self.rounded: dict[relax.Var, Any] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        weight = _weight(rewriter, call)
        if weight is None or numerics_of(call) != FLOAT32:
            return None
        if means_bytes(rewriter, call.args[0]):
            return None  # a layer of bytes
        value, name = array_of(weight).astype(self.numerics.weight), layer_name(weight)
        if reason := self._refused(call, value):
            self.note(name, f"{FLOAT32}: {reason}")
            return None
        self.note(name, f"multiplies {self.numerics.weight}")
        operands = self._operand(rewriter, call.args[0]), constant(value, name_of(weight))
        if op_name(call) == "matmul":
            return relax.op.matmul(*operands, out_dtype=FLOAT_SUMS)
        return _convolution(call, *operands)

    def _refused(self, call: relax.Call, value: np.ndarray) -> str:
        """Return why ``call`` stays as it is, empty if it need not; ``value`` is its weight."""
        if op_name(call) != "matmul" and int(call.attrs.groups) > 1 and value.shape[-1] == 1:
            return "a depthwise layer adds up too few products"
        if not supported(self.numerics, self.target):
            return f"no operator of {self.numerics.weight}"
        return "" if np.isfinite(value).all() else "a weight is too large"

    def _operand(self, rewriter: Rewriter, x: Any) -> Any:
        """Return ``x`` rounded, once for all its readers."""
        if x not in self.rounded:
            self.rounded[x] = rewriter.builder_.emit_te(rounded, x, primfunc_name_hint="round_half")
        return self.rounded[x]


def _weight(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return the constant weight of a linear layer or convolution that has an operator of ours."""
    if op_name(call) == "matmul":
        weight = rewriter.constant(call.args[1])
        return weight if weight is not None and len(shape_of(weight) or ()) == 2 else None
    return rewriter.constant(call.args[1]) if is_channels_last(call) else None


def _convolution(call: relax.Call, x: Any, weight: Any) -> relax.Call:
    """Return the convolution ``call`` on other operands, with the same sums."""
    attrs = call.attrs
    return CONVOLUTIONS[op_name(call)].operator(
        x,
        weight,
        strides=list(attrs.strides),
        padding=list(attrs.padding),
        dilation=list(attrs.dilation),
        groups=int(attrs.groups),
        data_layout=attrs.data_layout,
        kernel_layout=attrs.kernel_layout,
        out_layout=attrs.out_layout,
        out_dtype=FLOAT_SUMS,
    )


@tvm.transform.module_pass(opt_level=0, name="RoundOperands")
@dataclass(frozen=True)
class RoundOperands:
    """Round what linear layers and convolutions multiply; sums and all else stay as they are.

    before: ``matmul(x, w)``
    after: ``matmul(call_tir(round_half, x), w rounded, out_dtype=float32)``

    The rounding is fused behind what makes ``x``, unless something else reads that too. ``note``
    takes a phrase for the reason of each layer. For single precision nothing is to be done.
    """

    dtype: str
    target: Target
    note: Callable[[str, str], None]

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with narrower operands."""
        if self.dtype == FLOAT_SUMS:
            return mod
        return rewrite(
            mod,
            _RoundOperandsRule(Numerics.uniform(self.dtype, FLOAT_SUMS), self.target, self.note),
        )
