"""What operators mean where TVM's definitions differ from PyTorch's: a table by operator.

before: ``nn.relu(x)`` --> after: ``call_tir(relu, (x,))`` with ``relu`` of NaN being NaN

TVM's own definitions drop NaN in extrema, fold float arithmetic as if floats were real numbers,
and take variances as ``E[x^2] - E[x]^2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import relax, te, tirx
from tvm.relax.transform.legalize_ops.common import _try_convert_to_scalar_const

from tvm_sparse.base.memory import array_of
from tvm_sparse.ops import ieee, integers
from tvm_sparse.ops.bytes.quantize import Scale, dequantized, quantized
from tvm_sparse.ops.marks import FUSION, OPAQUE, VIEW
from tvm_sparse.ops.tensors.extrema import MAX, MIN, position, reduce
from tvm_sparse.ops.tensors.reshape import divides_by_symbols, reshape
from tvm_sparse.passes.graph.rewrite import op_name, shape_of
from tvm_sparse.passes.graph.stock import stock
from tvm_sparse.passes.lower.norms import NORMS, norm
from tvm_sparse.passes.lower.pooling import max_pool, mean_pool

Definition = Callable[[relax.BlockBuilder, relax.Call], Any]
Scalar = Callable[..., Any]


def _elementwise(function: Scalar, *, alone: bool = False) -> Definition:
    """Return the definition of an operator that is ``function`` of its operands' elements.

    One that is ``alone`` is not fused with others: its terms are many, and TVM's analysis takes
    minutes for those of several such functions within each other.
    """
    attributes = {FUSION: OPAQUE} if alone else None

    def define(builder: relax.BlockBuilder, call: relax.Call) -> Any:
        shape = call.ty.shape
        operands = [_scalar(argument) for argument in call.args]
        if shape is None or not any(isinstance(o, relax.Expr) for o in operands):
            return stock(builder, call)

        def compute(*values: Any) -> Any:
            def at(*index: Any) -> Any:
                return function(*[_at(value, index, extents) for value in values])

            return te.compute(extents, at, name=hint)

        hint, extents = op_name(call).rpartition(".")[2], list(shape.values)
        return builder.call_te(
            compute, *operands, primfunc_name_hint=hint, primfunc_attrs=attributes
        )

    return define


def _scalar(argument: Any) -> Any:
    """Return a scalar constant as its number, else ``argument``."""
    return _try_convert_to_scalar_const(argument)


def _at(value: Any, index: tuple[Any, ...], extents: list[Any]) -> Any:
    """Return the element of an operand that counts at ``index`` of the result."""
    if not isinstance(value, te.Tensor):
        return value
    missing = len(index) - len(value.shape)
    axes = zip(index[missing:], value.shape, extents[missing:], strict=True)
    # Only an axis that is repeated gets the index zero: others make the operator element-wise.
    return value(
        *[tirx.const(0, "int64") if _is_one(e) and not _is_one(n) else i for i, e, n in axes]
    )


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1


def _relu(x: Any) -> Any:
    return ieee.largest(tirx.const(0, str(x.ty.dtype)), x)


def _is_nan(x: Any) -> Any:
    return ieee.let(x, lambda v: ieee.negation(ieee.is_number(v)))


def _is_infinite(x: Any) -> Any:
    return tirx.LE(tirx.const(math.inf, str(x.ty.dtype)), tirx.abs(x))


def _is_finite(x: Any) -> Any:
    return tirx.LT(tirx.abs(x), tirx.const(math.inf, str(x.ty.dtype)))


def _typed(
    floats: Scalar | None = None,
    booleans: Scalar | None = None,
    integers: Scalar | None = None,
    *,
    alone: bool = False,
) -> Definition:
    """Return the definition of an operator that TVM gets right for operands of other types."""

    def define(builder: relax.BlockBuilder, call: relax.Call) -> Any:
        dtype = str(call.args[0].ty.dtype)
        own = floats if "float" in dtype else booleans if dtype == "bool" else integers
        if own is None:
            return stock(builder, call)
        return _elementwise(own, alone=alone and own is floats)(builder, call)

    return define


def _converted(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define conversions, of which the simplifier converts numbers otherwise.

    It cuts a number to a whole one before it is a boolean, and refuses one beyond the new type.
    """
    before, after = str(call.args[0].ty.dtype), str(call.ty.dtype)
    if "bool" == after != before:
        return _elementwise(lambda x: ieee.not_equal(x, tirx.const(0, before)))(builder, call)
    if integers.is_cut(before, after):
        return _elementwise(partial(integers.cut, after))(builder, call)
    return stock(builder, call)


def _compared(compare: Scalar) -> Definition:
    def whole(a: Any, b: Any) -> Any:
        return compare(*ieee.as_integers(a, b))

    return _typed(booleans=whole, integers=whole)


def _filled(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define constant tensors; the simplifier must not see their zeros, TVM knows no infinity."""
    dtype, shape = str(call.ty.dtype), call.ty.shape
    fill = _scalar(call.args[-1]) if op_name(call).startswith("full") else 0.0
    value = getattr(fill, "value", fill)
    if "float" not in dtype or shape is None or isinstance(value, relax.Expr):
        return stock(builder, call)
    hint, number = op_name(call), ieee.zero(dtype) if value == 0 else tirx.const(value, dtype)

    def compute() -> Any:
        return te.compute(list(shape.values), lambda *i: number, name=hint)

    return builder.call_te(compute, primfunc_name_hint=hint)


def _extremum(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    name, attrs = op_name(call), call.attrs
    axes = None if attrs.axis is None else [int(a) for a in attrs.axis]

    def compute(x: Any) -> Any:
        return reduce(MAX if name == "max" else MIN, x, axes, bool(attrs.keepdims))

    return builder.call_te(compute, call.args[0], primfunc_name_hint=name)


def _position(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    name, attrs, dtype = op_name(call), call.attrs, str(call.ty.dtype)
    axis = None if attrs.axis is None else int(attrs.axis)

    def compute(x: Any) -> Any:
        return position(MAX if name == "argmax" else MIN, x, axis, bool(attrs.keepdims), dtype)

    return builder.call_te(compute, call.args[0], primfunc_name_hint=name)


def _quantize(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define ``quantize`` of steps and ``dequantize``, by tensor, as our passes emit them."""
    x, *parameters = call.args
    size, zero = (float(array_of(p).reshape(())) for p in parameters)
    rounds = op_name(call) == "quantize"
    scale = Scale(str((call if rounds else x).ty.dtype), size, int(zero))
    define = quantized if rounds else dequantized
    return builder.call_te(lambda t: define(t, scale), x, primfunc_name_hint=define.__name__)


def _reshape(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define reshapes axis by axis; one that divides by open extents is not fused, but a view."""
    before, after = shape_of(call.args[0]), shape_of(call)
    if before is None or after is None or 0 in after:
        return stock(builder, call)
    attributes = {FUSION: OPAQUE, VIEW: True} if divides_by_symbols(before, after) else None
    return builder.call_te(
        reshape,
        *(call.args[0], call.ty.shape),
        primfunc_name_hint="reshape",
        primfunc_attrs=attributes,
    )


_ANGLES = ("tan", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")

DEFINITIONS: dict[str, Definition] = {
    "relax.reshape": _reshape,
    "relax.quantize": _quantize,
    "relax.dequantize": _quantize,
    "relax.add": _typed(booleans=tirx.bitwise_or),
    "relax.subtract": _typed(ieee.subtract),
    "relax.multiply": _typed(ieee.multiply, tirx.bitwise_and),
    "relax.divide": _typed(ieee.divide, integers=partial(integers.quotient, tirx.div)),
    "relax.power": _typed(ieee.power),
    "relax.negative": _typed(integers=integers.negative),
    "relax.sign": _typed(integers=integers.sign),
    "relax.floor_divide": _typed(
        ieee.floor_divide, integers=partial(integers.quotient, tirx.floordiv), alone=True
    ),
    "relax.floor_mod": _typed(
        ieee.floor_mod, integers=partial(integers.remainder, tirx.floormod), alone=True
    ),
    "relax.mod": _typed(
        ieee.remainder, integers=partial(integers.remainder, tirx.truncmod), alone=True
    ),
    **{f"relax.{name}": _typed(getattr(tirx, name), alone=True) for name in _ANGLES},
    "relax.equal": _elementwise(ieee.equal),
    "relax.not_equal": _elementwise(ieee.not_equal),
    "relax.less": _compared(tirx.LT),
    "relax.less_equal": _compared(tirx.LE),
    "relax.greater": _compared(tirx.GT),
    "relax.greater_equal": _compared(tirx.GE),
    "relax.maximum": _typed(ieee.largest, tirx.bitwise_or),
    "relax.minimum": _typed(ieee.smallest, tirx.bitwise_and),
    "relax.nn.relu": _elementwise(_relu),
    "relax.astype": _converted,
    "relax.isnan": _typed(_is_nan),
    "relax.isinf": _typed(_is_infinite),
    "relax.isfinite": _typed(_is_finite),
    **dict.fromkeys(("relax.logical_not", "relax.bitwise_not"), _typed(booleans=ieee.negation)),
    # TVM rewrites its own "and" and "or" of comparisons as if there was no NaN.
    "relax.logical_and": _typed(booleans=tirx.bitwise_and),
    "relax.logical_or": _typed(booleans=tirx.bitwise_or),
    "relax.logical_xor": _typed(booleans=tirx.bitwise_xor),
    **dict.fromkeys(("relax.full", "relax.full_like", "relax.zeros", "relax.zeros_like"), _filled),
    **dict.fromkeys(("relax.max", "relax.min"), _extremum),
    **dict.fromkeys(("relax.argmax", "relax.argmin"), _position),
    **dict.fromkeys(("relax.nn.avg_pool2d", "relax.nn.avg_pool3d"), mean_pool),
    **dict.fromkeys((f"relax.nn.max_pool{n}d" for n in (1, 2, 3)), max_pool),
    **dict.fromkeys((f"relax.{name}" for name in NORMS), norm),
}
"""For :class:`tvm_sparse.passes.lower.legalise.Legalise`."""
