"""Find depthwise convolutions whose result goes into a 1x1 convolution and nowhere else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.machine.engine.registry import ON_GPU
from tvm_sparse.passes.graph.convolution import convolution, numerics_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import count_uses, layer_name, op_name, same_shape, shape_of
from tvm_sparse.selection.layer import Layer

BETWEEN = frozenset(name for name, traits in ELEMENTWISE.items() if traits.fuses)
"""Operators that may stand between the two, beside constants of one value or one a channel."""


@dataclass(frozen=True)
class Convolution:
    """A convolution of the network: its call, weight and layer."""

    call: relax.Call
    weight: Any
    layer: Layer


@dataclass(frozen=True)
class Pair:
    """A depthwise convolution, what is computed from its result, and the 1x1 convolution behind.

    ``between`` are bindings in order; the 1x1 convolution reads the last one (the depthwise result
    ``var`` itself if there is none). ``reason`` says why they cannot be one kernel; it is empty
    where they may be.
    """

    var: Any
    first: Convolution
    second: Convolution
    between: tuple[tuple[Any, relax.Call], ...]
    reason: str


class Pairs:
    """Look for pairs in one function after its layers are NHWC."""

    def __init__(self, func: relax.Function) -> None:
        self.values = {b.var: b.value for block in func.body.blocks for b in block.bindings}
        self.uses = count_uses(func)

    def layers(self) -> list[str]:
        """Return the names of all layers with a constant weight, in network order."""
        calls = (v for v in self.values.values() if op_name(v) in ("matmul", "nn.conv2d"))
        weights = (self._value(call.args[1]) for call in calls)
        return [layer_name(w) for w in weights if isinstance(w, GenericConst)]

    def find(self) -> Iterator[Pair]:
        """Yield each 1x1 convolution behind a depthwise one, with whatever keeps them apart."""
        for value in self.values.values():
            second = self._convolution(value)
            if second is None or second.layer.contraction.depthwise:
                continue
            order, sources = self._upstream(value.args[0])
            found = [(s, self._convolution(self._value(s))) for s in sources]
            first = [(s, c) for s, c in found if c is not None and c.layer.contraction.depthwise]
            if first and math.prod(second.layer.contraction.taps) == 1:
                var, depthwise = first[0]
                between = tuple((v, self.values[v]) for v in order)
                reason = self._apart(var, between, value, len(sources))
                yield Pair(var, depthwise, second, between, reason)

    def _upstream(self, start: Any) -> tuple[list[Any], list[Any]]:
        """Return the element-wise bindings that ``start`` is computed by, and what they read."""
        order: list[Any] = []
        sources: list[Any] = []

        def visit(var: relax.Var) -> None:
            value = self._value(var)
            if any(var.same_as(seen) for seen in (*order, *sources)):
                return
            if op_name(value) not in BETWEEN:
                sources.append(var)
                return
            for operand in value.args:
                if isinstance(operand, relax.Var) and self._constant(operand) is None:
                    visit(operand)
            order.append(var)

        visit(start)
        return order, sources

    def _apart(self, var: relax.Var, between: tuple[Any, ...], last: Any, sources: int) -> str:
        """Return what keeps a pair apart, empty if nothing does."""
        if sources > 1:
            return "what is between them reads another tensor (a squeeze-excite gate, a residual)"
        calls = [*(call for _, call in between), last]
        read = Counter(a for call in calls for a in call.args if isinstance(a, relax.Var))
        if any(self.uses.get(v, 0) != read[v] for v in (var, *(v for v, _ in between))):
            return "the depthwise result is read elsewhere too"
        shape = shape_of(var)
        for v, call in between:
            if not same_shape(shape_of(v), shape):
                return "what is between them changes the shape"
            for operand in call.args:
                constant = self._constant(operand)
                if constant is not None and not _one_a_channel(constant, (shape or [0])[-1]):
                    return "a constant between them has more than one value a channel"
        return ""

    def _convolution(self, call: relax.Call) -> Convolution | None:
        """Return what an NHWC convolution with constant weights is made of."""
        if op_name(call) != "nn.conv2d" or call.attrs.data_layout != "NHWC":
            return None
        weight = self._constant(call.args[1])
        if weight is None or numerics_of(call) not in ON_GPU:
            return None
        padding = [int(p) for p in call.attrs.padding]
        borders = tuple(padding[:2]) if any(padding) else ()
        value = array_of(weight)
        c = convolution(call, call.args[0], value.shape, borders, static=True)
        if c is None or (int(call.attrs.groups) > 1 and not c.depthwise):
            return None
        operator = "depthwise" if c.depthwise else "conv2d"
        layer = Layer(layer_name(weight), operator, c, np.moveaxis(value, -1, 1))
        return Convolution(call, weight, layer)

    def _constant(self, expr: relax.Expr) -> Any | None:
        value = self._value(expr)
        return value if isinstance(value, GenericConst) else None

    def _value(self, expr: relax.Expr) -> Any:
        return self.values.get(expr, expr)


def _one_a_channel(constant: Any, channels: int) -> bool:
    shape = shape_of(constant) or []
    return math.prod(shape) == 1 or (shape[-1] == channels and math.prod(shape[:-1]) == 1)
