"""Complex numbers inside a network: pairs of real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.complex_parts import Writer
from tvm_sparse.frontends.converters import layer_of
from tvm_sparse.frontends.fourier import c2c, c2r, r2c

aten = torch.ops.aten

_PARTWISE = {
    *("permute", "view", "_unsafe_view", "reshape", "select", "slice", "unsqueeze", "squeeze"),
    *("expand", "cat", "flip", "roll", "index_select", "clone", "alias"),
    *("repeat", "transpose", "neg", "sum", "mean"),
}
"""Operators that do to the real and to the imaginary part what they do to real tensors."""


def replace_complex(program: torch.export.ExportedProgram) -> None:
    """Write ``program``, which is ours, with real tensors only.

    before: ``y = _fft_c2c(x, [2], ...)``
    after:  ``re = x.re @ cos - x.im @ sin; im = x.im @ cos + x.re @ sin``

    Raises
    ------
    UnsupportedError
        An operator on complex numbers is none of these, or an input or output is complex.
    """
    nodes = list(program.graph.nodes)
    if any(_is_complex(node.meta.get("val")) for node in nodes):
        writer = Writer(program.graph)
        for node in nodes:
            _visit(writer, node)
        program.graph.eliminate_dead_code()


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def _visit(w: Writer, node: fx.Node) -> None:
    """Replace ``node`` if it gives or takes complex numbers."""
    gives = _is_complex(node.meta.get("val"))
    if not gives and w.pairs.keys().isdisjoint(node.all_input_nodes):
        return
    name = getattr(node.target, "__name__", str(node.op)).partition(".")[0]
    write = _RULES.get(name)
    single = not gives or node.meta["val"].dtype == torch.complex64
    if node.op != "call_function" or not single or (write is None and name not in _PARTWISE):
        raise UnsupportedError(
            layer_of(node),
            f"'{node.target}' has complex numbers",
            "Fourier transforms, sums, products and moves of complex64 inside the network",
            "take and return torch.view_as_real of complex tensors",
        )
    w.node = node
    with w.graph.inserting_before(node):
        found: Any = w.partwise() if write is None else write(w, *node.args)
    if gives:
        w.pairs[node] = found
    else:
        node.replace_all_uses_with(found)


def _product(w: Writer, x: Any, y: Any) -> Any:
    if not isinstance(y, fx.Node) and not isinstance(y, complex):
        return w.scaled(w.of(x), y)
    if isinstance(y, fx.Node) and y in w.pairs and x not in w.pairs:
        x, y = y, x
    (a, b), mul = w.of(x), aten.mul.Tensor
    if isinstance(y, fx.Node) and y not in w.pairs:
        return w.emit(mul, a, y), w.emit(mul, b, y)
    return w.product((a, b), (y.real, y.imag) if isinstance(y, complex) else w.of(y))


def _magnitude(w: Writer, x: fx.Node) -> fx.Node:
    """Write the square root of the sum of squares, which overflow where it does not."""
    sizes = [w.emit(aten.abs.default, part) for part in w.of(x)]
    large, small = w.emit(aten.maximum.default, *sizes), w.emit(aten.minimum.default, *sizes)
    ratio, same = w.emit(aten.div.Tensor, small, large), w.emit(aten.eq.Tensor, small, large)
    ratio = w.emit(aten.where.self, same, w.emit(aten.full_like.default, ratio, 1.0), ratio)
    square = w.emit(aten.mul.Tensor, ratio, ratio)
    root = w.emit(aten.sqrt.default, w.emit(aten.add.Tensor, square, 1))
    return w.emit(aten.mul.Tensor, large, root)


def _padded(w: Writer, x: fx.Node, amounts: Any, value: Any = 0.0) -> Any:
    pad = aten.constant_pad_nd.default
    parts = zip(w.of(x), (value.real, value.imag), strict=True)
    return tuple(w.emit(pad, part, amounts, number) for part, number in parts)


def _stacked(w: Writer, x: fx.Node) -> fx.Node:
    parts = [w.emit(aten.unsqueeze.default, part, -1) for part in w.of(x)]
    return w.emit(aten.cat.default, parts, -1)


def _copied(w: Writer, x: fx.Node) -> Any:
    pair, to = w.of(x), w.node.meta["val"].dtype
    return pair if to.is_complex else w.emit(aten._to_copy.default, pair[0], dtype=to)


def _sum(operator: Any) -> Callable[..., Any]:
    def write(w: Writer, x: Any, y: Any) -> Any:
        if not isinstance(x, fx.Node) or not isinstance(y, fx.Node) or w.node.kwargs:
            raise UnsupportedError(layer_of(w.node), "adds a number to complex ones", "a tensor")
        return tuple(w.emit(operator, a, b) for a, b in zip(w.of(x), w.of(y), strict=True))

    return write


_RULES: dict[str, Callable[..., Any]] = {
    "_fft_c2c": c2c,
    "_fft_r2c": r2c,
    "_fft_c2r": c2r,
    "mul": _product,
    "add": _sum(aten.add.Tensor),
    "sub": _sum(aten.sub.Tensor),
    "abs": _magnitude,
    "constant_pad_nd": _padded,
    "view_as_real": _stacked,
    "view_as_complex": lambda w, x: tuple(w.emit(aten.select.int, x, -1, i) for i in (0, 1)),
    "complex": lambda w, x, y: (x, y),
    "_to_copy": _copied,
    "full_like": lambda w, x, v: tuple(
        w.emit(aten.full_like.default, w.of(x)[0], part) for part in (v.real, v.imag)
    ),
    "_conj": lambda w, x: (w.of(x)[0], w.emit(aten.neg.default, w.of(x)[1])),
}
"""By operator: what writes it, of the writer and the operator's arguments."""
