"""Zeros around a tensor become the borders of the convolutions that read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS, options_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE, Function
from tvm_sparse.passes.graph.padding import border_widths
from tvm_sparse.passes.graph.rewrite import Rewriter, count_uses, op_name, rewrite


@tvm.transform.module_pass(opt_level=0, name="PadConvolutions")
class PadConvolutions:
    """Let convolutions put zeros around what they read, where the network does it before.

    before: ``conv(f(pad(x, value)), w)`` with ``f(value) == 0``
    after:  ``conv(f(x), w)`` with borders

    ``f`` are element-wise steps with single numbers, such as those of a quantized input; nothing
    else may read what they give. Networks of TensorFlow pad so: more behind an image than before.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with borders in convolutions."""
        bound: dict[Any, Any] = {}
        uses: dict[Any, int] = {}
        for _, func in mod.functions_items():
            if isinstance(func, relax.Function):
                bound |= dict(relax.analysis.get_var2val(func).items())
                uses |= count_uses(func)
        return rewrite(mod, _Rule(bound, uses))


@dataclass(frozen=True)
class _Rule:
    """The rule; ``bound`` and ``uses`` tell of the variables of the module as it was."""

    bound: dict[Any, Any]
    uses: dict[Any, int]

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        form = CONVOLUTIONS.get(op_name(call))
        if form is None:
            return None
        pad, steps = self._before(rewriter.original.args[0])
        widths = None if pad is None else border_widths(pad, str(call.attrs.data_layout))
        if pad is None or widths is None or not self._gives_zero(pad, steps):
            return None
        x = rewriter.visit_expr(pad.args[0])
        for step in steps:
            operands = [a if self._constant(a) is not None else x for a in step.args]
            x = rewriter.emit(relax.Call(step.op, operands, step.attrs, step.ty_args))
        options = options_of(call)
        options["padding"] = [a + b for a, b in zip(options["padding"], widths, strict=True)]
        return form.operator(x, call.args[1], **options)

    def _before(self, var: Any) -> tuple[Any | None, list[relax.Call]]:
        """Return the pad before ``var``, if any, and the element-wise steps behind the pad."""
        steps: list[relax.Call] = []
        while (value := self.bound.get(var)) is not None and op_name(value) in ELEMENTWISE:
            moving = [a for a in value.args if self._constant(a) is None]
            if len(moving) != 1 or self.uses.get(var) != 1:
                return None, []
            steps.insert(0, value)
            (var,) = moving
        return (value, steps) if op_name(value) == "nn.pad" else (None, [])

    def _constant(self, operand: Any) -> np.ndarray | None:
        """Return the single number that ``operand`` is."""
        value = self.bound.get(operand, operand) if isinstance(operand, relax.Var) else operand
        if isinstance(value, tirx.IntImm | tirx.FloatImm):
            return np.asarray(value.value)
        if not isinstance(value, GenericConst):
            return None
        found = array_of(value)
        return found if found.size == 1 else None

    def _gives_zero(self, pad: Any, steps: list[relax.Call]) -> bool:
        """Whether ``steps`` make zeros of what is put around."""
        found = array_of(relax.const(float(pad.attrs.pad_value), str(pad.ty.dtype)))
        for step in steps:
            operands = [found if (c := self._constant(a)) is None else c for a in step.args]
            stepped = _computed(step, operands)
            if stepped is None:
                return False
            found = stepped
        return not found.any()


def _computed(step: relax.Call, operands: list[np.ndarray]) -> np.ndarray | None:
    """Return what an element-wise step gives for single numbers, ``None`` if nobody can say."""
    name, dtype = op_name(step), str(step.ty.dtype)
    function = _STEPS.get(name) or ELEMENTWISE[name].numpy
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*operands)).astype(dtype)


_STEPS: dict[str, Function] = {"clip": np.clip, "astype": lambda x: x}
"""What NumPy computes of steps with attributes."""
