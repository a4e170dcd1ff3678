"""Convolutions of lines with few columns become products of their weight with all windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.vector import LANES
from tvm_sparse.passes.canonical.sink_permutes import merged, sunk
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    count_uses,
    name_of,
    op_name,
    rewrite,
    static_shape,
)

MOST_COLUMNS = 2 * LANES
"""Taps times channels: beyond, products take longer than writing results does."""

_BACK = [0, 2, 1]
"""Channels-last lines to channels first, and the other way round."""


@dataclass(frozen=True)
class _Unfold:
    """The rule; ``uses`` and ``values`` are how often a variable is read, and what it is bound to.

    It looks at the function as it was; ``rewriter.visit_expr`` gives an operand's new value.
    """

    uses: dict[Any, int]
    values: dict[Any, Any]

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) != "permute_dims" or [int(a) for a in call.attrs.axes or ()] != _BACK:
            return None
        chain: list[tuple[relax.Call, int]] = []
        operand = rewriter.original.args[0]
        while self.uses.get(operand) == 1:
            found: Any = self.values.get(operand)
            if op_name(found) == "nn.conv1d":
                if not self._is_narrow(found):
                    return None
                return _replayed(rewriter, call, _product(rewriter, found), chain[::-1])
            place = _link(found)
            if place is None:
                return None
            chain.append((found, place))
            operand = found.args[place]
        return None

    def _is_narrow(self, conv: relax.Call) -> bool:
        """Whether ``conv``, of floats, takes as long to write its results as to compute them."""
        x, kernel = conv.args
        shape = static_shape(conv)
        if shape is None or static_shape(x) is None or not isinstance(kernel, GenericConst):
            return False
        plain = str(conv.attrs.data_layout) == "NWC" and int(conv.attrs.groups) == 1
        if not plain or str(conv.ty.dtype) != FLOAT_SUMS or str(x.ty.dtype) != FLOAT_SUMS:
            return False
        source: Any = self.values.get(x)
        while op_name(source) in ("reshape", "permute_dims"):
            source = self.values.get(source.args[0])
        columns = math.prod((static_shape(kernel) or (0,))[1:])
        # What is quantized stays a layer of bytes.
        return (
            columns <= MOST_COLUMNS and min(shape[1:]) >= LANES and op_name(source) != "dequantize"
        )


def _link(found: Any) -> int | None:
    """Return which operand an element-wise call computes with, if all others are constants."""
    name = op_name(found)
    if name not in ELEMENTWISE or "quantize" in name:
        return None
    others = [i for i, a in enumerate(found.args) if not isinstance(a, GenericConst)]
    return others[0] if len(others) == 1 else None


def _product(rewriter: Rewriter, conv: relax.Call) -> Any:
    """Emit ``conv`` as a product, channels first, and return it channels last."""
    weight, attrs = conv.args[1], conv.attrs
    value = array_of(weight)
    x = _emitted(rewriter, relax.op.permute_dims(rewriter.visit_expr(conv.args[0]), _BACK), merged)
    x = _padded(rewriter, x, [int(p) for p in attrs.padding])
    count, step, apart = int(conv.ty.shape[1]), int(attrs.strides[0]), int(attrs.dilation[0])
    firsts = [tap * apart for tap in range(value.shape[1])]
    taps = [
        rewriter.emit(relax.op.strided_slice(x, [2], [f], [f + (count - 1) * step + 1], [step]))
        for f in firsts
    ]
    windows = rewriter.emit(relax.op.concat(taps, axis=1)) if len(taps) > 1 else taps[0]
    matrix = constant(np.ascontiguousarray(value.reshape(len(value), -1)), name_of(weight))
    return rewriter.emit(
        relax.op.permute_dims(rewriter.emit(relax.op.matmul(matrix, windows)), _BACK)
    )


def _padded(rewriter: Rewriter, x: Any, padding: list[int]) -> Any:
    """Return channels-first lines with zeros before and behind them."""
    batch, channels, _ = static_shape(x) or ()
    before, after = (
        [relax.const(np.zeros((batch, channels, width)), str(x.ty.dtype))] * (width > 0)
        for width in padding
    )
    return rewriter.emit(relax.op.concat([*before, x, *after], axis=2)) if before or after else x


def _replayed(
    rewriter: Rewriter, call: relax.Call, value: Any, chain: list[tuple[relax.Call, int]]
) -> Any:
    """Return ``call``, the transposition behind the links of ``chain``, for another first value."""
    for link, place in chain:
        operands = [value if i == place else a for i, a in enumerate(link.args)]
        value = _emitted(rewriter, relax.Call(link.op, operands, link.attrs, link.ty_args), sunk)
    return _emitted(rewriter, relax.op.permute_dims(value, call.attrs.axes), merged)


def _emitted(rewriter: Rewriter, call: relax.Call, rule: Callable[..., Any]) -> Any:
    """Emit what ``rule`` makes of ``call``, or ``call`` itself."""
    call = rewriter.builder_.normalize(call)
    found = rule(rewriter, call)
    return rewriter.emit(call if found is None else found)


@tvm.transform.module_pass(opt_level=0, name="UnfoldLines")
@dataclass(frozen=True)
class UnfoldLines:
    """Write results of few columns channels first at once, where channels-last ones are turned.

    before: ``permute_dims(add(conv1d(x: (n, w, 1), k: (512, 10, 1)), b), [0, 2, 1])``
    after:  ``add(matmul(k: (512, 10), windows(x): (n, 10, v)), b: (512, 1))``

    Such a layer writes many times what it reads: turning its result costs as much as computing it.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module without these convolutions."""
        main = mod["main"]
        return rewrite(mod, _Unfold(count_uses(main), relax.analysis.get_var2val(main)))
