"""A writer of real operators in the place of complex ones: complex tensors are pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.program.computed_weights import add_weight

aten = torch.ops.aten

Pair = tuple[fx.Node, fx.Node]
"""Real and imaginary parts."""


def _plain(value: Any) -> Any:
    """Return a tensor like ``value`` in row-major order: others' strides may be questions."""
    if not isinstance(value, FakeTensor):
        return value
    return torch.empty(value.shape, dtype=value.dtype, device=value.device)


class Writer:
    """Writes operators before ``node``, whose complex operands have ``pairs``."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self.program, self.pairs = program, dict[fx.Node, Pair]()
        self.node: Any = None
        self._weights: dict[str, fx.Node] = {}

    @property
    def graph(self) -> fx.Graph:
        """What is written to."""
        return self.program.graph

    def weight(self, name: str, value: torch.Tensor) -> fx.Node:
        """Return the argument for a matrix that all who name it share."""
        if name not in self._weights:
            made = add_weight(self.program, name, value)
            with self._mode():
                made.meta = {"val": torch.empty(value.shape, dtype=value.dtype)}
            self._weights[name] = made
        return self._weights[name]

    def emit(self, operator: Any, *args: Any, **named: Any) -> fx.Node:
        """Return a new node."""
        return self.made(self._mode(args, named), operator, *args, **named)

    def _mode(self, *operands: Any) -> Any:
        """Return the mode without memory of the node's value, or of ``operands``."""
        found = fx.map_arg(operands, lambda a: a.meta["val"])
        tensors = pytree.tree_leaves((self.node.meta.get("val"), found))
        return next(t for t in tensors if isinstance(t, FakeTensor)).fake_mode

    def made(self, mode: Any, operator: Any, *args: Any, **named: Any) -> fx.Node:
        """Return a new node, whose value is computed in a ``mode`` without memory."""
        node = self.graph.call_function(operator, args, named)
        with mode:
            fakes = pytree.tree_map_only(fx.Node, lambda a: _plain(a.meta["val"]), (args, named))
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
        real = value
        if value.meta["val"].dtype != torch.float32:
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
