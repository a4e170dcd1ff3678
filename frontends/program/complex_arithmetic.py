"""Sums, quotients and products of complex tensors, written with their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tvm_sparse.frontends.program.complex_parts import Pair, Writer

aten = torch.ops.aten


def _pair(w: Writer, value: Any, like: Pair) -> Pair:
    """Return the parts of a tensor or a number; ``like`` has the type of a number's parts."""
    if isinstance(value, fx.Node):
        return w.of(value)
    number = complex(value)
    return tuple(  # type: ignore[return-value]
        w.emit(aten.full_like.default, part, real)
        for part, real in zip(like, (number.real, number.imag), strict=True)
    )


def _both(w: Writer, x: Any, y: Any) -> tuple[Pair, Pair]:
    """Return the parts of two operands, one of which may be a number."""
    like = w.of(x if isinstance(x, fx.Node) else y)
    return _pair(w, x, like), _pair(w, y, like)


def added(sign: int) -> Callable[..., Any]:
    """Return what writes ``x + sign * alpha * y``."""
    operator = (aten.add if sign > 0 else aten.sub).Tensor

    def write(w: Writer, x: Any, y: Any, alpha: Any = 1) -> Any:
        first, second = _both(w, x, y)
        if alpha != 1:
            factor = complex(alpha)
            second = w.product(second, (factor.real, factor.imag))
        return tuple(w.emit(operator, a, b) for a, b in zip(first, second, strict=True))

    return write


def divided(w: Writer, x: Any, y: Any) -> Any:
    """Write ``x / y``, the divisor brought to a size near one first (Smith 1962)."""
    div, mul = aten.div.Tensor, aten.mul.Tensor
    if not isinstance(y, fx.Node) and not isinstance(y, complex):
        return w.each(div, w.of(x), y)
    if isinstance(y, fx.Node) and y not in w.pairs:
        return w.each(div, w.of(x), y)
    above, below = _both(w, x, y)
    sizes = [w.emit(aten.abs.default, part) for part in below]
    scale = w.emit(aten.maximum.default, *sizes)
    below = w.each(div, below, scale)
    squares = [w.emit(mul, part, part) for part in below]
    length = w.emit(aten.add.Tensor, *squares)
    return w.each(div, w.each(div, w.product(above, below, -1), length), scale)


def exponential(w: Writer, z: fx.Node) -> Pair:
    """Write ``exp(a) (cos b + i sin b)``."""
    a, b = w.of(z)
    size = w.emit(aten.exp.default, a)
    waves = (w.emit(wave.default, b) for wave in (aten.cos, aten.sin))
    return tuple(w.emit(aten.mul.Tensor, size, wave) for wave in waves)  # type: ignore[return-value]


def equal(w: Writer, x: Any, y: Any) -> fx.Node:
    """Write whether both parts are equal."""
    pairs = zip(*_both(w, x, y), strict=True)
    return w.emit(aten.logical_and.default, *(w.emit(aten.eq.Tensor, a, b) for a, b in pairs))


def chosen(w: Writer, condition: fx.Node, x: Any, y: Any) -> Pair:
    """Write ``where``."""
    pairs = zip(*_both(w, x, y), strict=True)
    return tuple(w.emit(aten.where.self, condition, a, b) for a, b in pairs)  # type: ignore[return-value]


def written(place: int) -> Callable[..., Any]:
    """Return what writes the tensor at ``place`` among the arguments into the first one."""

    def write(w: Writer, *args: Any, **named: Any) -> Any:
        pairs = zip(w.of(args[0]), w.of(args[place]), strict=True)
        before, behind = args[1:place], args[place + 1 :]
        return tuple(w.emit(w.node.target, a, *before, b, *behind, **named) for a, b in pairs)

    return write


def contracted(operator: Any) -> Callable[..., Any]:
    """Return what writes a product of matrices as four real ones."""

    def write(w: Writer, x: fx.Node, y: fx.Node, *rest: Any) -> Pair:
        (a, b), (c, d) = w.of(x), w.of(y)
        if x not in w.pairs:
            return w.emit(operator, a, c, *rest), w.emit(operator, a, d, *rest)
        if y not in w.pairs:
            return w.emit(operator, a, c, *rest), w.emit(operator, b, c, *rest)
        real = [w.emit(operator, p, q, *rest) for p, q in ((a, c), (b, d))]
        imaginary = [w.emit(operator, p, q, *rest) for p, q in ((a, d), (b, c))]
        return w.emit(aten.sub.Tensor, *real), w.emit(aten.add.Tensor, *imaginary)

    return write


def with_bias(operator: Any) -> Callable[..., Any]:
    """Return what writes a linear layer or a convolution."""
    product = contracted(operator)

    def write(w: Writer, x: fx.Node, y: fx.Node, bias: Any = None, *rest: Any) -> Pair:
        found: Pair = product(w, x, y, *([None, *rest] if rest else []))
        if bias is None:
            return found
        planes = len(rest[0]) if rest else 0
        shape = [-1, *[1] * planes]
        parts = [w.emit(aten.reshape.default, part, shape) for part in w.of(bias)]
        return tuple(  # type: ignore[return-value]
            w.emit(aten.add.Tensor, a, b) for a, b in zip(found, parts, strict=True)
        )

    return write


def onto(operator: Any) -> Callable[..., Any]:
    """Return what writes ``beta * z + alpha * (x @ y)``."""
    product = contracted(operator)

    def write(  # noqa: PLR0917 (the operator's own signature)
        w: Writer, z: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1
    ) -> Any:
        pairs = []
        for pair, factor in ((w.of(z), beta), (product(w, x, y), alpha)):
            number = complex(factor)
            whole = number == 1
            pairs.append(pair if whole else w.product(pair, (number.real, number.imag)))
        return tuple(w.emit(aten.add.Tensor, a, b) for a, b in zip(*pairs, strict=True))

    return write
