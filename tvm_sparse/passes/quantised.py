"""Quantised layers as calls of our operators: what passes over quantised networks emit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.errors import InputError
from tvm_sparse.numerics import FLOAT_SUMS
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.quantise import Scale, dequantised, quantised, rescaled, row_rescaled
from tvm_sparse.passes.rewrite import add_function, constant
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.layer import Layer


@dataclass(frozen=True)
class Epilogue:
    """What becomes of the integer sums of a layer, in the order of the parameters.

    Parameters
    ----------
    factors
        Of each feature: what a step of its sum means, the scales of input and weight multiplied.
    bias
        Of each feature, float32, or none.
    rows
        A float32 tensor with a factor for each row, its last extent one: scales of an input that
        is quantised row by row.
    residual
        A tensor of bytes of the output's shape, and what they mean; it is added.
    activation
        An element-wise function of a float32 expression.
    output
        What the bytes of the result mean; without it the result is float32.
    """

    factors: np.ndarray = field(repr=False)
    bias: np.ndarray | None = field(default=None, repr=False)
    rows: Any = None
    residual: tuple[Any, Scale] | None = None
    activation: Callable[[Any], Any] | None = None
    output: Scale | None = None


def quantised_layer(
    builder: relax.BlockBuilder, chooser: Chooser, layer: Layer, x: Any, epilogue: Epilogue
) -> Any:
    """Emit a layer of integers with its epilogue, which fuses to one kernel; return the result.

    ``x`` are bytes: rows of a linear layer, or NHWC with borders that hold the zero point. The
    weight of ``layer`` is int8 and its contraction has the numerics and the zero point of ``x``.
    The chooser stores and computes it like any other layer.
    """
    c, found = layer.contraction, str(x.ty.dtype)
    if found != c.dtype or layer.weight.dtype.name != c.numerics.weight:
        raise InputError(
            f"layer '{layer.name}'", f"input {found}, weight {layer.weight.dtype}", str(c.numerics)
        )
    choice = chooser.choose(layer)
    stored = [constant(value, f"{layer.name}.{part}") for part, value in choice.arrays.items()]
    hint = f"{layer.operator}_{choice.candidate.name}"
    func = add_function(builder, choice.candidate.func, hint)
    sums = builder.emit(relax.call_tir(func, [x, *stored], out_ty=_output(c, x)))
    return _finished(builder, layer, sums, epilogue)


def _finished(builder: relax.BlockBuilder, layer: Layer, sums: Any, e: Epilogue) -> Any:
    """Emit the epilogue of ``sums``."""
    per_feature = [e.factors] if e.bias is None else [e.factors, e.bias]
    for value in per_feature:
        if value.shape != (layer.contraction.features,):
            expected = f"one for each of {layer.contraction.features} features"
            raise InputError(f"layer '{layer.name}'", f"factors of shape {value.shape}", expected)
    operands = [constant(np.ascontiguousarray(value, FLOAT_SUMS)) for value in per_feature]
    y = builder.emit_te(rescaled, sums, *operands)
    if e.rows is not None:
        y = builder.emit_te(row_rescaled, y, e.rows)
    if e.residual is not None:
        other, scale = e.residual
        means = builder.emit_te(
            lambda t: dequantised(t, scale), other, primfunc_name_hint="dequantise"
        )
        y = builder.emit(relax.op.add(y, means))
    if e.activation is not None:
        y = builder.emit(e.activation(y))
    output = e.output
    if output is None:
        return y
    return builder.emit_te(lambda t: quantised(t, output), y, primfunc_name_hint="quantise")


def _output(c: Contraction, x: Any) -> relax.TensorType:
    """Return the type of the sums; symbolic extents are those of ``x``."""
    lead = [e if isinstance(e, int) else x.ty.shape[i] for i, e in enumerate(c.lead)]
    return relax.TensorType((*lead, c.features), c.out_dtype)
