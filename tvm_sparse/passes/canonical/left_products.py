"""Products with a pruned left operand become convolutions, whose operators know sparse formats."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.notes import Notes
from tvm_sparse.base.numerics import is_float
from tvm_sparse.machine.vector import LANES
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    constant,
    layer_name,
    name_of,
    op_name,
    rewrite,
    shape_of,
    static_shape,
)
from tvm_sparse.passes.lower.channels_first import first_to_last, last_to_first
from tvm_sparse.passes.shrink.group_products import ZEROS

MATRIX = 2
"""Axes of a matrix."""


@tvm.transform.module_pass(opt_level=0, name="LeftProducts")
@dataclass(frozen=True)
class LeftProducts:
    """Let operators of convolutions have what a pruned constant multiplies from the left.

    before: ``matmul(w: (m, k), x: (n, k, p))``
    after:  ``permute_dims(conv1d(permute_dims(x), w': (m, 1, k)))``

    Rows of ``x`` are channels, so it is a pointwise convolution channels first. A batch of matrices
    is one of groups. Where there are kernels for planes, nothing is transposed. With a vector, or
    an unknown number of columns, it is a linear layer. A product with a dense matrix reads its
    operands where they lie. ``notes`` gets a phrase for each weight.
    """

    notes: Notes = field(default_factory=Notes)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module without pruned left operands."""
        return rewrite(mod, self._turned)

    def _turned(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        name = op_name(call)
        if name == "sum":
            return _vector_product(rewriter, call)
        weight = rewriter.constant(call.args[0]) if name == "matmul" else None
        shape = shape_of(call.args[1]) if weight is not None else None
        if shape is None or rewriter.constant(call.args[1]) is not None:
            return None
        value = array_of(weight)
        if value.ndim < MATRIX or not is_float(str(call.ty.dtype)):
            return None
        if len(shape) == 1:
            return _linear(call.args[1], weight) if value.ndim == MATRIX else None
        return self._of_zeros(rewriter, call, weight)

    def _of_zeros(self, rewriter: Rewriter, call: relax.Call, weight: Any) -> Any | None:
        """Return the product of a matrix, or of several, if many elements are zero."""
        value = array_of(weight)
        if np.count_nonzero(value) > (1 - ZEROS) * value.size:
            return None
        turned = self._rows(rewriter, call, weight)
        turned = self._planes(rewriter, call, weight) if turned is None else turned
        if turned is not None:
            self.notes.add(layer_name(weight), "left operand: its product is turned")
        return turned

    @staticmethod
    def _rows(rewriter: Rewriter, call: relax.Call, weight: Any) -> Any | None:
        """Return the product as a linear layer on the columns of the right operand.

        That is for a single column, and for an unknown number of them.
        """
        shape = shape_of(call.args[1]) or []
        if len(shape_of(weight) or ()) != MATRIX or (isinstance(shape[-1], int) and shape[-1] != 1):
            return None
        axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        x = rewriter.emit(relax.op.permute_dims(call.args[1], axes))
        return relax.op.permute_dims(rewriter.emit(_linear(x, weight)), axes)

    @staticmethod
    def _planes(rewriter: Rewriter, call: relax.Call, weight: Any) -> Any | None:
        """Return the product as a convolution of what is channels first."""
        value, shape = array_of(weight), shape_of(call.args[1]) or []
        batch = value.shape[:-2] if math.prod(value.shape[:-2]) > 1 else ()
        lead, inside = shape[: len(shape) - 2 - len(batch)], shape[len(shape) - 2 - len(batch) :]
        if not all(isinstance(extent, int) for extent in inside):
            return None
        if tuple(inside[:-2]) != batch or (batch and value.shape[-2] % LANES):
            return None
        images = lead[0] if len(lead) == 1 else math.prod(lead) if _known(lead) else None
        if images is None:
            return None
        groups, (features, columns), wide = math.prod(batch), value.shape[-2:], inside[-1]
        x = relax.op.reshape(call.args[1], [images, groups * columns, wide])
        x = rewriter.emit(relax.op.permute_dims(rewriter.emit(x), first_to_last(1)))
        kernel = constant(value.reshape(groups * features, 1, columns), name_of(weight))
        layouts = {"data_layout": "NWC", "kernel_layout": "OWI"}
        dtype = str(call.ty.dtype)
        product = relax.op.nn.conv1d(x, kernel, groups=groups, out_dtype=dtype, **layouts)
        back = relax.op.permute_dims(rewriter.emit(product), last_to_first(1))
        return relax.op.reshape(rewriter.emit(back), call.ty.shape)


def _known(extents: list[Any]) -> bool:
    return all(isinstance(extent, int) for extent in extents)


def _vector_product(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return a linear layer for ``sum(w * x)`` along rows of ``w``, as PyTorch writes ``mv``."""
    product = rewriter.resolve(call.args[0])
    if op_name(product) != "multiply" or bool(call.attrs.keepdims) or call.attrs.axis is None:
        return None
    weight, x = rewriter.constant(product.args[0]), product.args[1]
    if weight is None or not name_of(weight) or rewriter.constant(x) is not None:
        return None
    whole, vector = static_shape(weight) or (), static_shape(x)
    along = [int(axis) % MATRIX for axis in call.attrs.axis] == [1]
    if len(whole) != MATRIX or whole != static_shape(product) or vector != whole[1:] or not along:
        return None
    return _linear(x, weight) if is_float(str(call.ty.dtype)) else None


def _linear(x: Any, weight: Any) -> Any:
    """Return the product of ``x`` and the transposed ``weight``."""
    turned = constant(np.ascontiguousarray(array_of(weight).T), name_of(weight))
    return relax.op.matmul(x, turned, out_dtype=str(x.ty.dtype))
