"""A writer of real operators in the place of complex ones: complex tensors are pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

aten = torch.ops.aten

Pair = tuple[fx.Node, fx.Node]
"""Real and imaginary parts."""


class Writer:
    """Writes operators before ``node``, whose complex operands have ``pairs``."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph, self.pairs = graph, dict[fx.Node, Pair]()
        self.node: Any = None

    def emit(self, operator: Any, *args: Any, **named: Any) -> fx.Node:
        """Return a new node."""
        found = fx.map_arg((args, named), lambda a: a.meta["val"])
        tensors = pytree.tree_leaves((self.node.meta.get("val"), found))
        mode = next(t for t in tensors if isinstance(t, FakeTensor)).fake_mode
        return self.made(mode, operator, *args, **named)

    def made(self, mode: Any, operator: Any, *args: Any, **named: Any) -> fx.Node:
        """Return a new node, whose value is computed in a ``mode`` without memory."""
        node = self.graph.call_function(operator, args, named)
        fakes = pytree.tree_map_only(fx.Node, lambda a: a.meta["val"], (args, named))
        with mode:
            value = operator(*fakes[0], **fakes[1])
        node.meta = {"nn_module_stack": self.node.meta.get("nn_module_stack"), "val": value}
        return node

    def partwise(self) -> Pair:
        """Do to both parts what ``node`` does to real tensors."""
        joined = self.node.target is aten.cat.default  # perhaps to real tensors

        def part(place: int) -> fx.Node:
            def of(a: Any) -> Any:
                return self.of(a)[place] if a in self.pairs or joined else a

            args = pytree.tree_map_only(fx.Node, of, self.node.args)
            return self.emit(self.node.target, *args, **self.node.kwargs)

        return part(0), part(1)

    def of(self, value: Any) -> Pair:
        """Return the parts of a node; a real one's imaginary part is zero."""
        if value in self.pairs:
            return self.pairs[value]
        real = self.emit(aten._to_copy.default, value, dtype=torch.float32)
        return real, self.emit(aten.full_like.default, real, 0.0)

    def each(self, operator: Any, pair: Pair, *args: Any) -> Pair:
        """Return an operator of the real and of the imaginary part."""
        return self.emit(operator, pair[0], *args), self.emit(operator, pair[1], *args)

    def product(self, x: Pair, y: Sequence[Any], sign: int = 1) -> Pair:
        """Return ``x y``, or ``x`` times the conjugate of ``y`` with ``sign`` -1."""
        (a, b), (c, d), mul = x, y, aten.mul.Tensor
        first, second = (aten.add, aten.sub) if sign < 0 else (aten.sub, aten.add)
        real = self.emit(first.Tensor, self.emit(mul, a, c), self.emit(mul, b, d))
        return real, self.emit(second.Tensor, self.emit(mul, b, c), self.emit(mul, a, d))

    def scaled(self, pair: Sequence[fx.Node], factor: float) -> tuple[fx.Node, ...]:
        """Return all parts times ``factor``."""
        if factor == 1:
            return tuple(pair)
        return tuple(self.emit(aten.mul.Tensor, part, factor) for part in pair)
