"""Products of halves are computed in single precision where a CPU has no instruction for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.target import Target

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS, HALVES
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.passes.bytes.dynamic_meaning import means_bytes
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS, is_channels_last, options_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    count_uses,
    layer_name,
    name_of,
    op_name,
    rewrite,
    shape_of,
)

VIEWS = ("reshape", "permute_dims")


class _WidenProductsRule:
    """The rule; remembers what was widened, so that layers with the same input share it."""

    def __init__(
        self, target: Target, note: Callable[[str, str], None], uses: dict[Any, int]
    ) -> None:
        self.fast = {dtype for dtype, _ in machine_of(target).dots}
        self.note, self.uses = note, uses
        self.wide: dict[Any, Any] = {}
        self.sums: set[Any] = set()

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        name = op_name(call)
        if name == "matmul" or (name in CONVOLUTIONS and is_channels_last(call)):
            return self._product(rewriter, call)
        if name in VIEWS or name == "add":
            return self._later(rewriter, call)
        return None

    def _product(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        types = {str(operand.ty.dtype) for operand in call.args}
        weight = rewriter.constant(call.args[1])
        stored = weight is not None and (
            op_name(call) != "matmul" or len(shape_of(weight) or ()) == 2
        )
        if not types <= {*HALVES, FLOAT_SUMS} or types == {FLOAT_SUMS}:
            return None
        if stored and types <= self.fast:
            return None
        operands = [self._operand(rewriter, operand) for operand in call.args]
        if op_name(call) == "matmul":
            product = relax.op.matmul(*operands, out_dtype=FLOAT_SUMS)
        else:
            options = options_of(call) | {"out_dtype": FLOAT_SUMS}
            product = CONVOLUTIONS[op_name(call)].operator(*operands, **options)
        if weight is not None and not means_bytes(rewriter, call.args[0]):
            self.note(layer_name(weight), f"{'/'.join(sorted(types))}, multiplied in {FLOAT_SUMS}")
        return self._rounded(rewriter, product, str(call.ty.dtype))

    def _later(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Round what a product gives behind its bias, and behind views that it may write."""
        rounded = rewriter.resolve(call.args[0])
        if op_name(rounded) != "astype" or rounded.args[0] not in self.sums:
            return None
        if self.uses.get(rewriter.original.args[0]) != 1:
            return None
        others = list(call.args[1:])
        if op_name(call) == "add":
            bias = rewriter.constant(others[0])
            if bias is None:
                return None
            others = [self._operand(rewriter, bias)]
        again = relax.Call(call.op, [rounded.args[0], *others], call.attrs, call.ty_args)
        return self._rounded(rewriter, again, str(call.ty.dtype))

    def _rounded(self, rewriter: Rewriter, product: relax.Call, dtype: str) -> Any:
        sums = rewriter.emit(product)
        self.sums.add(sums)
        return sums if dtype == FLOAT_SUMS else relax.op.astype(sums, dtype)

    def _operand(self, rewriter: Rewriter, x: Any) -> Any:
        """Return ``x`` in single precision, once for all its readers; views stay behind that."""
        if (const := rewriter.constant(x)) is not None:
            return constant(array_of(const).astype(FLOAT_SUMS), name_of(const))
        if str(x.ty.dtype) == FLOAT_SUMS:
            return x
        if x not in self.wide:
            view = rewriter.resolve(x)
            if op_name(view) in VIEWS:
                before = self._operand(rewriter, view.args[0])
                wide = relax.Call(view.op, [before, *view.args[1:]], view.attrs, view.ty_args)
            else:
                wide = relax.op.astype(x, FLOAT_SUMS)
            self.wide[x] = rewriter.emit(wide)
        return self.wide[x]


@tvm.transform.module_pass(opt_level=0, name="WidenProducts")
@dataclass(frozen=True)
class WidenProducts:
    """Let operators of single precision have the products of halves: linear layers, convolutions.

    before: ``add(matmul(x, w), b)``, all float16
    after:  ``astype(add(matmul(astype(x, "float32"), w in float32), b in float32), "float16")``

    Halves are exact in single precision, so only the order of additions differs from exact sums:
    results are rounded once. bfloat16 stays where the machine multiplies it by an instruction, and
    the weight is a constant. ``note`` takes a phrase for the reason of each layer.
    """

    target: Target
    note: Callable[[str, str], None]

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with wider products."""
        return rewrite(mod, _WidenProductsRule(self.target, self.note, count_uses(mod["main"])))
