"""Converters of our own: PyTorch operators that TVM's importer does not know, or gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tvm import relax

from tvm_sparse.frontends.axes import for_each_axis
from tvm_sparse.ops.integers import common_divisor, power, shift
from tvm_sparse.ops.polynomials import RECURRENCES, polynomial
from tvm_sparse.ops.scan import log_sums, running_extremes
from tvm_sparse.ops.window_maxima import Windows, window_maxima
from tvm_sparse.ops.zeta import zeta

Converter = Callable[[Any, torch.fx.Node], Any]
"""Called with the importer and a node of the graph; returns a Relax expression, or ``None`` where
TVM's own converter is right."""

CONVERTERS: dict[str, Converter] = {}

_SCATTERS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def converter(*names: str) -> Callable[[Converter], Converter]:
    """Return a decorator that enters a function as the converter of the operators ``names``."""

    def register(function: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function

    return register


@converter("scatter.src")
def _scatter(importer: Any, node: torch.fx.Node) -> Any:
    x, dim, index, source = importer.retrieve_args(node)
    return emit(importer, relax.op.scatter_elements(x, index, source, dim))


@converter("scatter_reduce.two")
def _scatter_reduce(importer: Any, node: torch.fx.Node) -> Any:
    x, dim, index, source, reduce = importer.retrieve_args(node)
    return emit(importer, relax.op.scatter_elements(x, index, source, dim, _SCATTERS[reduce]))


@converter("prod.dim_int")
def _product(importer: Any, node: torch.fx.Node) -> Any:
    x, dim, *keep = importer.retrieve_args(node)
    dtype = _dtype(node)
    x = x if str(x.ty.dtype) == dtype else emit(importer, relax.op.astype(x, dtype))
    return emit(importer, relax.op.prod(x, dim, bool(keep and keep[0])))


@converter("amax.default", "amin.default")
def _extreme(importer: Any, node: torch.fx.Node) -> Any:
    x, axes, keep = _filled(importer.retrieve_args(node), (None, [], False))
    reduce = relax.op.max if "amax" in str(node.target) else relax.op.min
    return emit(importer, reduce(x, [int(axis) for axis in axes] or None, bool(keep)))


@converter("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def _adaptive_max_pool(importer: Any, node: torch.fx.Node) -> Any:
    x, counts = importer.retrieve_args(node)
    extents = [int(e) for e in x.ty.shape][-len(counts) :]
    axes = [Windows.shares(e, c) for e, c in zip(extents, counts, strict=True)]
    return _maxima(importer, x, axes)


def max_pool_places(importer: Any, node: torch.fx.Node, pooled: Any) -> Any:
    """Return the maxima ``pooled`` with their places, which TVM's converter leaves out.

    Nothing is done where nothing reads the places.
    """
    if not any(user.args[1] == 1 for user in node.users):
        return pooled
    arguments: list[Any] = list(importer.retrieve_args(node))
    x, kernel, *rest = arguments
    stride, padding, dilation = _filled(rest[:3], ([], 0, 1))
    rank = 3 if "3d" in str(node.target) else 2
    sizes = [for_each_axis(value, rank) for value in (kernel, stride or kernel, padding, dilation)]
    counts = [int(e) for e in node.meta["val"][0].shape][-rank:]
    extents = [int(e) for e in x.ty.shape][-rank:]
    axes = [Windows(e, c, *each) for e, c, *each in zip(extents, counts, *sizes, strict=True)]
    return _maxima(importer, x, axes)


def _maxima(importer: Any, x: Any, axes: list[Windows]) -> Any:
    call = importer.block_builder.call_te(
        lambda x: window_maxima(x, axes), x, primfunc_name_hint="window_maxima"
    )
    return emit(importer, call)


def _filled(given: Sequence[Any], defaults: Sequence[Any]) -> list[Any]:
    """Return the arguments ``given``, the rest from ``defaults``."""
    return [*given, *defaults[len(given) :]]


@converter("convolution.default")
def _convolution(importer: Any, node: torch.fx.Node) -> Any | None:
    """Transposed in three dimensions; the others are TVM's."""
    x, weight, bias, stride, padding, dilation, transposed, extra, groups = importer.retrieve_args(
        node
    )
    if not transposed or len(x.ty.shape) != 5:
        return None
    steps = (for_each_axis(value, 3) for value in (stride, padding, extra, dilation))
    result = relax.op.nn.conv3d_transpose(x, weight, *steps, groups)
    if bias is None:
        return emit(importer, result)
    column = emit(importer, relax.op.reshape(bias, [1, -1, 1, 1, 1]))
    return emit(importer, relax.op.add(emit(importer, result), column))


@converter("cummax.default", "cummin.default")
def _running_extremes(importer: Any, node: torch.fx.Node) -> Any:
    x, axis = importer.retrieve_args(node)
    largest = "max" in str(node.target)
    return emit(
        importer,
        importer.block_builder.call_te(
            lambda x: running_extremes(x, axis, largest=largest), x, primfunc_name_hint="running"
        ),
    )


@converter("logcumsumexp.default")
def _log_sums(importer: Any, node: torch.fx.Node) -> Any:
    x, axis = importer.retrieve_args(node)
    return called(importer, node, lambda x: log_sums(x, axis), x)


@converter("pow.Tensor_Tensor")
def _power(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, power)


@converter("bitwise_left_shift.Tensor", "__lshift__.Tensor")
def _left_shift(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, lambda x, by: shift(x, by, left=True))


@converter("bitwise_right_shift.Tensor", "__rshift__.Tensor")
def _right_shift(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, lambda x, by: shift(x, by, left=False))


@converter("gcd.default")
def _common_divisor(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, common_divisor)


@converter(*(f"special_{name}.default" for name in RECURRENCES))
def _polynomial(importer: Any, node: torch.fx.Node) -> Any:
    family = RECURRENCES[str(node.target).split(".")[1].removeprefix("special_")]
    return _in_double(importer, node, lambda x, n: polynomial(x, n, family))


@converter("special_zeta.default")
def _zeta(importer: Any, node: torch.fx.Node) -> Any:
    return _in_double(importer, node, zeta)


def _in_double(importer: Any, node: torch.fx.Node, define: Callable[..., Any]) -> Any:
    """Call the function that ``define`` describes on float64 operands of the result's shape."""
    shape = [int(extent) for extent in node.meta["val"].shape]
    operands = [emit(importer, relax.op.astype(x, "float64")) for x in importer.retrieve_args(node)]
    operands = [emit(importer, relax.op.broadcast_to(x, shape)) for x in operands]
    found = called(importer, node, define, *operands)
    return emit(importer, relax.op.astype(found, _dtype(node)))


def _of_integers(importer: Any, node: Any, define: Callable[..., Any]) -> Any | None:
    """Call the function that ``define`` describes on operands of the result's type and shape."""
    dtype = _dtype(node)
    if "int" not in dtype:
        return None
    operands = [emit(importer, relax.op.astype(x, dtype)) for x in importer.retrieve_args(node)]
    shapes = [list(a.meta["val"].shape) for a in node.args]
    if shapes[0] != shapes[1]:
        shape = [int(extent) for extent in node.meta["val"].shape]
        operands = [emit(importer, relax.op.broadcast_to(x, shape)) for x in operands]
    return called(importer, node, define, *operands)


def called(importer: Any, node: torch.fx.Node, define: Callable[..., Any], *operands: Any) -> Any:
    """Call the function that ``define`` describes, by the name of the operator of ``node``."""
    name = str(node.target).split(".")[1]
    call = importer.block_builder.call_te(define, *operands, primfunc_name_hint=name)
    return emit(importer, call)


def emit(importer: Any, expr: Any) -> Any:
    """Add an expression to the program under construction and return its variable."""
    return importer.block_builder.emit(expr)


def _dtype(node: torch.fx.Node) -> str:
    return str(node.meta["val"].dtype).removeprefix("torch.")
