"""Complex numbers inside a network: pairs of real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.frontends.program.complex_arithmetic import (
    added,
    chosen,
    contracted,
    divided,
    equal,
    exponential,
    onto,
    with_bias,
    written,
)
from tvm_sparse.frontends.program.complex_parts import Writer
from tvm_sparse.frontends.program.fourier import c2c, c2r, r2c
from tvm_sparse.frontends.program.operator_names import operator_name

aten = torch.ops.aten

_PARTWISE = {
    *("permute", "view", "_unsafe_view", "reshape", "select", "slice", "unsqueeze", "squeeze"),
    *("expand", "cat", "flip", "roll", "index_select", "clone", "alias"),
    *("repeat", "transpose", "neg", "sum", "mean", "cumsum", "index", "gather", "diagonal"),
    *("split", "split_with_sizes", "unbind", "getitem", "copy", "lift_fresh_copy", "alias_copy"),
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
        writer = Writer(program)
        weights = _real_weights(program)
        for node in nodes:
            if node.name in weights:
                writer.node = node.next
                with writer.graph.inserting_before(_behind_arguments(node)):
                    writer.pairs[node] = _halves(writer, node)
            else:
                _visit(writer, node)
        program.graph.eliminate_dead_code()


def _real_weights(program: torch.export.ExportedProgram) -> set[str]:
    """Let complex weights of ``program`` be real, with an axis of two, and return their names."""
    found = set()
    program._state_dict, program._constants = {**program.state_dict}, {**program.constants}
    held = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec in program.graph_signature.input_specs:
        for tensors in (program._state_dict, program._constants):
            value = tensors.get(spec.target) if spec.kind is not InputKind.USER_INPUT else None
            if isinstance(value, torch.Tensor) and value.dtype == torch.complex64:
                tensors[spec.target] = torch.view_as_real(value.detach().resolve_conj())
                node = held[spec.arg.name]
                node.meta["val"] = torch.view_as_real(node.meta["val"])
                found.add(node.name)
    return found


def _behind_arguments(node: fx.Node) -> fx.Node:
    """Return the first node of a graph that is no argument."""
    while node.op == "placeholder":
        node = node.next
    return node


def _halves(w: Writer, x: fx.Node) -> Any:
    """Return the two parts of a tensor whose last axis has them."""
    return tuple(w.emit(aten.select.int, x, -1, place) for place in (0, 1))


def _is_complex(value: Any) -> bool:
    """Whether a value is a complex tensor, or several."""
    if isinstance(value, list | tuple):
        return any(map(_is_complex, value))
    return isinstance(value, torch.Tensor) and value.is_complex()


def _is_single(value: Any) -> bool:
    """Whether the complex tensors of a value have parts of 32 bits."""
    parts = value if isinstance(value, list | tuple) else [value]
    return all(part.dtype == torch.complex64 for part in parts if _is_complex(part))


def _visit(w: Writer, node: fx.Node) -> None:
    """Replace ``node`` if it gives or takes complex numbers."""
    gives = _is_complex(node.meta.get("val"))
    if not gives and w.pairs.keys().isdisjoint(node.all_input_nodes):
        return
    name = getattr(node.target, "__name__", str(node.op)).partition(".")[0]
    write = _RULES.get(name)
    single = not gives or _is_single(node.meta["val"])
    if node.op != "call_function" or not single or (write is None and name not in _PARTWISE):
        raise UnsupportedError(
            layer_of(node),
            f"{_what(node)} has complex numbers",
            "Fourier transforms, sums, products and moves of complex64 inside the network",
            "take and return torch.view_as_real of complex tensors",
        )
    w.node = node
    with w.graph.inserting_before(node):
        found: Any = w.partwise() if write is None else write(w, *node.args, **_named(node))
    if gives:
        w.pairs[node] = found
    else:
        node.replace_all_uses_with(found)


def _what(node: fx.Node) -> str:
    """Return what ``node`` is: an input, an output or an operator."""
    if node.op == "output":
        return "an output"
    if node.op == "placeholder":
        return f"'{node.name}'"
    return f"operator '{operator_name(node.target)}'"


def _named(node: fx.Node) -> dict[str, Any]:
    """Return the keyword arguments of ``node`` that say more than where tensors lie."""
    idle = ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking")
    return {name: value for name, value in node.kwargs.items() if name not in idle}


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


def _constant(w: Writer, shape: Any, value: Any) -> Any:
    number = complex(value)
    parts = (number.real, number.imag)
    mode, dtype = w.node.meta["val"].fake_mode, torch.float32
    return tuple(w.made(mode, aten.full.default, shape, part, dtype=dtype) for part in parts)


def _stacked(w: Writer, x: fx.Node) -> fx.Node:
    parts = [w.emit(aten.unsqueeze.default, part, -1) for part in w.of(x)]
    return w.emit(aten.cat.default, parts, -1)


def _copied(w: Writer, x: fx.Node) -> Any:
    pair, to = w.of(x), w.node.meta["val"].dtype
    return pair if to.is_complex else w.emit(aten._to_copy.default, pair[0], dtype=to)


_RULES: dict[str, Callable[..., Any]] = {
    "_fft_c2c": c2c,
    "_fft_r2c": r2c,
    "_fft_c2r": c2r,
    "mul": _product,
    "add": added(1),
    "sub": added(-1),
    "rsub": lambda w, x, y, **k: added(-1)(w, y, x, **k),
    "div": divided,
    "reciprocal": lambda w, y: divided(w, 1.0, y),
    "exp": exponential,
    "angle": lambda w, z: w.emit(aten.atan2.default, *reversed(w.of(z))),
    "eq": equal,
    "ne": lambda w, x, y: w.emit(aten.logical_not.default, equal(w, x, y)),
    "where": chosen,
    "masked_fill": lambda w, x, mask, value: chosen(w, mask, value, x),
    "mm": contracted(aten.mm.default),
    "bmm": contracted(aten.bmm.default),
    "matmul": contracted(aten.matmul.default),
    "linear": with_bias(aten.linear.default),
    "convolution": with_bias(aten.convolution.default),
    "addmm": onto(aten.mm.default),
    "baddbmm": onto(aten.bmm.default),
    "conj_physical": lambda w, x: (w.of(x)[0], w.emit(aten.neg.default, w.of(x)[1])),
    "linalg_vector_norm": lambda w, x, *args, **named: w.emit(
        aten.linalg_vector_norm.default, _magnitude(w, x), *args, **named
    ),
    "abs": _magnitude,
    "constant_pad_nd": _padded,
    "view_as_real": _stacked,
    "view_as_complex": _halves,
    "scalar_tensor": lambda w, v: _constant(w, [], v),
    "full": _constant,
    **dict.fromkeys(("scatter", "scatter_add", "index_add", "index_copy"), written(3)),
    **dict.fromkeys(("slice_scatter", "select_scatter", "diagonal_scatter"), written(1)),
    "index_put": written(2),
    "complex": lambda w, x, y: (x, y),
    "_to_copy": _copied,
    "full_like": lambda w, x, v: tuple(
        w.emit(aten.full_like.default, w.of(x)[0], part) for part in (v.real, v.imag)
    ),
    "_conj": lambda w, x: (w.of(x)[0], w.emit(aten.neg.default, w.of(x)[1])),
}
"""By operator: what writes it, of the writer and the operator's arguments."""
