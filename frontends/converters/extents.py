"""Converters of what is computed with open extents: their arithmetic, and tensors made of them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from tvm import relax, tirx

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.converters.operators import converter, dtype_of, emit
from tvm_sparse.frontends.program.conditions import held
from tvm_sparse.passes.graph.known_extents import KnownExtents


def with_shape(importer: Any, node: torch.fx.Node, convert: Callable[[torch.fx.Node], Any]) -> Any:
    """Convert ``node`` to a tensor of the shape that PyTorch knows, where TVM finds none.

    PyTorch finds extents equal that TVM cannot compare: the two halves of a concatenation, say,
    whose extents are rounded up in other orders. Operands are seen with the extents that
    PyTorch says they have. Else the result is cast to them, which the program checks when it runs.
    """
    result = convert(node)
    if not _shapeless(node, result):
        return result
    shape = _shape(importer, node)
    if shape is None:
        return result
    agreeing = _agreeing(importer, node, shape)
    if agreeing:
        operands = {n: importer.env[n] for n in agreeing}
        importer.env.update(agreeing)
        try:
            result = convert(node)
        finally:
            importer.env.update(operands)
        if not _shapeless(node, result):
            return result
    return importer.block_builder.match_cast(result, relax.TensorType(shape, result.ty.dtype))


def shape_of(importer: Any, node: torch.fx.Node) -> list[Any]:
    """Return the shape of the result of ``node``, in variables of the program.

    Raises
    ------
    ValueError
        An extent has no form with them.
    """
    shape = _shape(importer, node)
    if shape is None:
        raise ValueError(f"its shape {tuple(node.meta['val'].shape)} has no form")
    return shape


def _shape(importer: Any, node: torch.fx.Node) -> list[Any] | None:
    names = _variables(importer, node.graph)
    shape = [_expression(extent, names) for extent in node.meta["val"].shape]
    if any(extent is None for extent in shape):
        return None
    known = bounds(importer, node)
    return [known.simplify(extent) for extent in shape]


def bounds(importer: Any, node: torch.fx.Node) -> KnownExtents:
    """Return the ranges of the program's open extents.

    PyTorch's own ones are narrower where it takes extents for two or more.
    """
    forms = _variables(importer, node.graph).values()
    variables = {v for form in forms for v in tirx.analysis.undefined_vars(form)}
    return KnownExtents({v: importer.bounds.get(v.name, (1, None)) for v in variables})


def _shapeless(node: torch.fx.Node, result: Any) -> bool:
    """Whether the program does not know the shape of ``result``, which PyTorch knows."""
    found = getattr(result, "ty", None)
    unknown = isinstance(found, relax.TensorType) and found.shape is None
    return unknown and isinstance(node.meta.get("val"), torch.Tensor)


def _agreeing(importer: Any, node: torch.fx.Node, shape: list[Any]) -> dict[torch.fx.Node, Any]:
    """Return operands with the extents of the result, where these are broadcast or joined."""
    joined = node.target is torch.ops.aten.cat.default
    if not joined and torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return {}
    axis: Any = node.args[1] if joined and len(node.args) > 1 else 0
    found: dict[torch.fx.Node, Any] = {}
    for operand in node.all_input_nodes:
        value = importer.env[operand]
        own = getattr(getattr(value, "ty", None), "shape", None)
        if own is None:
            continue
        wanted, known = shape[len(shape) - len(own) :], operand.meta["val"].shape
        if joined:
            wanted[int(axis) % len(own)] = own[int(axis) % len(own)]
        pairs = zip(known, own, wanted, strict=True)
        kept = [new if isinstance(n, torch.SymInt) else old for n, old, new in pairs]
        # No cast: TVM would put what is cast for the variable, which that is computed of, forever.
        found[operand] = emit(importer, relax.op.reshape(value, relax.ShapeExpr(kept)))
    return found


def _variables(importer: Any, graph: torch.fx.Graph) -> dict[Any, Any]:
    """Return the program's variable of each symbol that is an extent of an input."""
    found: dict[Any, Any] = {}
    for node in graph.find_nodes(op="placeholder"):
        shapes = getattr(node.meta.get("val"), "shape", ()), importer.env.get(node)
        if shapes[1] is not None:
            pairs = zip(shapes[0], shapes[1].ty.shape or (), strict=False)
            for extent, own in pairs:
                if isinstance(extent, torch.SymInt):
                    found[extent.node.expr] = own
                    free = {s: importer.symbols.get(str(s)) for s in extent.node.expr.free_symbols}
                    for symbol, variable in free.items():
                        if variable is not None:
                            found.setdefault(symbol, variable)
    return found


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: functools.reduce(operator.add, terms),
    "Mul": lambda *factors: math.prod(factors),
    "Pow": lambda base, exponent: math.prod([base] * int(exponent)),
    "PowByNatural": lambda base, exponent: math.prod([base] * int(exponent)),
    "FloorDiv": tirx.floordiv,
    "CleanDiv": tirx.floordiv,
    "Mod": tirx.floormod,
    "PythonMod": tirx.floormod,
    "Max": lambda *terms: functools.reduce(tirx.max, terms),
    "Min": lambda *terms: functools.reduce(tirx.min, terms),
    "Equality": lambda a, b: a == b,
    "Unequality": lambda a, b: a != b,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    "And": tirx.all,
    "Or": tirx.any,
    "Not": tirx.Not,
}
"""By the name of PyTorch's function of extents."""


def _divided(division: Callable[..., Any]) -> Callable[..., Any]:
    """Return a division that may be by zero, where a processor would stop: by one then."""
    return lambda a, b: division(a, tirx.Select(b == 0, tirx.const(1, "int64"), b))


_CONDITIONS = _OPERATIONS | {
    name: _divided(_OPERATIONS[name]) for name in ("FloorDiv", "CleanDiv", "Mod", "PythonMod")
}
"""The same in conditions, which are computed for sizes at which they do not hold, too."""


def _expression(
    extent: Any, names: Mapping[Any, Any], operations: Mapping[str, Any] = _OPERATIONS
) -> Any | None:
    """Return an extent as an expression of the program's variables, None if it has no form."""
    if isinstance(extent, int):
        return tirx.IntImm("int64", extent)
    expr = extent.node.expr if isinstance(extent, torch.SymInt) else extent
    if expr in names:
        return names[expr]
    if expr.is_Integer:
        return tirx.IntImm("int64", int(expr))
    make = operations.get(type(expr).__name__)
    parts = [_expression(argument, names, operations) for argument in expr.args]
    known = make is not None and all(part is not None for part in parts)
    return make(*parts) if known and make is not None else None


def decided(importer: Any, node: torch.fx.Node, result: Any) -> Any:
    """Return what ``node`` computes of extents in PyTorch's form, which has one division.

    It is a number where their ranges allow one only.
    """
    if not isinstance(node.meta.get("val"), torch.SymInt) or isinstance(result, int):
        return result
    form = _expression(node.meta["val"], _variables(importer, node.graph))
    simple = bounds(importer, node).simplify(result if form is None else form)
    return int(simple) if isinstance(simple, tirx.IntImm) else simple


@converter("sym_max")
def _larger(importer: Any, node: torch.fx.Node) -> Any:
    return _chosen(importer, node, tirx.max, max)


@converter("sym_min")
def _smaller(importer: Any, node: torch.fx.Node) -> Any:
    return _chosen(importer, node, tirx.min, min)


@converter("sym_numel.default")
def _size(importer: Any, node: torch.fx.Node) -> Any:
    """Return how many elements a tensor has."""
    return math.prod(importer.env[node.args[0]].ty.shape)


@converter("pow")
def _power(importer: Any, node: torch.fx.Node) -> Any:
    base, exponent = importer.retrieve_args(node)
    whole = isinstance(exponent, int) and exponent > 0
    return math.prod([base] * exponent) if whole else None


@converter("neg")
def _negated(importer: Any, node: torch.fx.Node) -> Any:
    return -importer.retrieve_args(node)[0] if isinstance(node.meta["val"], torch.SymInt) else None


def _chosen(
    importer: Any, node: torch.fx.Node, symbolic: Callable[..., Any], known: Callable[..., Any]
) -> Any:
    a, b = importer.retrieve_args(node)
    return known(a, b) if isinstance(a, int) and isinstance(b, int) else symbolic(a, b)


@converter("scalar_tensor.default", "full.default")
def _tensor_of_extent(importer: Any, node: torch.fx.Node) -> Any | None:
    """Return a tensor that holds an extent: a range of one step, spread over the shape."""
    given: Any = node.args[-1]
    if not isinstance(getattr(given, "meta", {}).get("val"), torch.SymInt):
        return None
    value = importer.env[given]
    one = emit(importer, relax.op.arange(value, value + 1, 1, dtype="int64"))
    one = emit(importer, relax.op.astype(one, dtype_of(node)))
    wanted: Any = () if node.target is torch.ops.aten.scalar_tensor.default else node.args[0]
    shape = [importer.env[n] if isinstance(n, torch.fx.Node) else n for n in wanted]
    if not shape:
        return emit(importer, relax.op.reshape(one, ()))
    return emit(importer, relax.op.broadcast_to(one, shape))


@converter(held.__name__)
def _held(importer: Any, node: torch.fx.Node) -> Any:
    """Return whether a condition on extents holds, which the program asserts."""
    variables = _variables(importer, node.graph)
    truth = _expression(node.meta["condition"], variables, _CONDITIONS)
    if truth is None:
        raise InputError(
            "model",
            f"is traced where {node.meta['condition']}, which a program cannot check",
            "sums, products, quotients and comparisons of open extents",
            "write the condition with these, or fix the extents",
        )
    number = tirx.Select(truth, tirx.const(1, "int64"), tirx.const(0, "int64"))
    one = emit(importer, relax.op.arange(number, number + 1, 1, dtype="int64"))
    return emit(importer, relax.op.reshape(emit(importer, relax.op.astype(one, "bool")), ()))


@converter("squeeze.default", "squeeze.dim", "squeeze.dims")
def _squeezed(importer: Any, node: torch.fx.Node) -> Any | None:
    """Take away the axes that are one to PyTorch; to TVM's converter an open one may be.

    An extent that guards make one is open all the same: its first element is taken.
    """
    source: Any = node.args[0]
    shape = source.meta["val"].shape
    if all(isinstance(extent, int) for extent in shape):
        return None
    given: Any = node.args[1] if len(node.args) > 1 else range(len(shape))
    axes = [axis % len(shape) for axis in ([given] if isinstance(given, int) else given)]
    ones = [axis for axis in axes if isinstance(shape[axis], int) and shape[axis] == 1]
    x = importer.env[source]
    if len(axes) == len(shape) - len(node.meta["val"].shape) > len(ones):
        firsts, ends = [0] * len(axes), [1] * len(axes)
        x = emit(importer, relax.op.strided_slice(x, axes, firsts, ends, assume_inbound=True))
        ones = axes
    return emit(importer, relax.op.squeeze(x, ones)) if ones else x


@converter("select.int")
def _selected(importer: Any, node: torch.fx.Node) -> Any | None:
    """Take the element at a place that follows from an open extent: the last step, say."""
    place: Any = node.args[2]
    if not isinstance(getattr(place, "meta", {}).get("val"), torch.SymInt):
        return None
    x, first = importer.env[node.args[0]], importer.env[place]
    axis = int(node.args[1]) % len(x.ty.shape)  # type: ignore[arg-type]
    first = first + x.ty.shape[axis] if place.meta["val"] < 0 else first
    row = relax.op.strided_slice(x, [axis], [first], [first + 1], assume_inbound=True)
    return emit(importer, relax.op.squeeze(emit(importer, row), [axis]))
