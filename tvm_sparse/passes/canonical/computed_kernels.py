"""Convolutions whose weights are activations: packed when the network runs, then as any other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tvm import relax
from tvm.target import Target

from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.machine.engine.registry import supported_singly
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.passes.canonical.sink_permutes import axes_of
from tvm_sparse.passes.graph.convolution import convolution, numerics_of, repeated
from tvm_sparse.passes.graph.padding import pad
from tvm_sparse.passes.graph.rewrite import Rewriter, call_function, op_name, shape_of, static_shape


def computed_convolution(rewriter: Rewriter, call: relax.Call, target: Target) -> Any | None:
    """Return a channels-last convolution ``call`` with an operator of ours, if there is one.

    before: ``conv2d(x, w)``
    after:  ``call_tir(conv2d_computed, (x, permute_dims(reshape(w))))``

    Its weight is no constant, so zeros in it are not known.
    """
    kernel, shape = static_shape(call.args[1]), shape_of(call)
    if kernel is None or shape is None or 0 in kernel:
        return None
    if not supported_singly(numerics_of(call), target):
        return None
    groups, padding = int(call.attrs.groups), [int(p) for p in call.attrs.padding]
    x = pad(rewriter, call.args[0], (*padding, 0)) if any(padding) else call.args[0]
    x = repeated(rewriter, x, kernel, groups)
    c = convolution(call, x, kernel, ())
    if c is None:
        return None
    hint = f"{op_name(call).removeprefix('nn.')}_computed"
    if c.depthwise:
        flat = rewriter.emit(relax.op.reshape(call.args[1], [c.features, math.prod(c.taps)]))
        values = rewriter.emit(relax.op.permute_dims(flat))
        return call_function(rewriter, depthwise(c, target), [x, values], call.ty, hint)
    each = c.features // groups
    whole = -(-each // LANES) * LANES if groups > 1 else each
    c = replace(c, columns=kernel[-1], groups=groups, features=groups * whole)
    format = dense_format(c, target)
    values = _packed(rewriter, call.args[1], c, format)
    ty = relax.TensorType([*shape[:-1], c.features], c.out_dtype)
    product = call_function(rewriter, dense(c, format, target), [x, values], ty, hint)
    if whole == each:
        return product
    apart = relax.op.reshape(rewriter.emit(product), [*shape[:-1], groups, whole])
    own = relax.op.strided_slice(rewriter.emit(apart), [len(shape)], [0], [each])
    return relax.op.reshape(rewriter.emit(own), call.ty.shape)


def _packed(rewriter: Rewriter, weight: Any, c: Contraction, format: DenseFormat) -> Any:
    """Return ``weight``, ``(features, *taps, columns)``, as ``format`` has constants.

    Each group has zeros behind its features up to those of ``c``.
    """
    taps, lanes, blocks = math.prod(c.taps), format.lanes, format.row_blocks
    before = rewriter.resolve(weight)
    first = taps > 1 and op_name(before) == "permute_dims" and _moves_columns(before)
    weight = before.args[0] if first else weight
    each = int(weight.ty.shape[0]) // c.groups
    matrix = rewriter.emit(relax.op.reshape(weight, [c.groups, each, format.cols]))
    if missing := blocks * lanes // c.groups - each:
        zeros = relax.op.zeros([c.groups, missing, format.cols], str(weight.ty.dtype))
        matrix = rewriter.emit(relax.op.concat([matrix, rewriter.emit(zeros)], axis=1))
    turned = rewriter.emit(relax.op.reshape(matrix, [blocks, lanes, format.cols]))
    turned = rewriter.emit(relax.op.permute_dims(turned, [0, 2, 1]))
    if not first:
        return turned
    # Lanes are whole vectors then: moving these is cheap, moving single columns before was not.
    apart = rewriter.emit(relax.op.reshape(turned, [blocks, c.columns, taps, lanes]))
    moved = rewriter.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]))
    return rewriter.emit(relax.op.reshape(moved, [blocks, format.cols, lanes]))


def _moves_columns(call: relax.Call) -> bool:
    """Whether a transposition takes the second axis behind all others."""
    axes = axes_of(call)
    return axes == [0, *range(2, len(axes)), 1]
