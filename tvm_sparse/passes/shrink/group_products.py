"""Products with a constant matrix for each item of a batch become convolutions of groups."""

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
    static_shape,
)

ZEROS = 0.5
"""Fraction of zeros from which a batch of matrices is worth a format."""

MOVED = 36
"""Products that take as long as moving a number: 16 x 196 x 64 by 64 x 64 got slower by moves."""


@tvm.transform.module_pass(opt_level=0, name="GroupProducts")
@dataclass(frozen=True)
class GroupProducts:
    """Let operators of groups, which know sparse formats, have batches of pruned matrices.

    before: ``matmul(x: (g, m, k), w: (g, k, n))``
    after:  ``conv1d(x': (1, m, g * k), w': (g * n, 1, k), groups=g)``, moved back

    A product with dense matrices reads its operands where they lie and stays. ``notes`` gets a
    phrase for each weight.
    """

    notes: Notes = field(default_factory=Notes)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with convolutions instead of products of pruned batches."""
        return rewrite(mod, self._grouped)

    def _grouped(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) != "matmul":
            return None
        weight, shape = rewriter.constant(call.args[1]), static_shape(call.args[0])
        if weight is None or shape is None or not is_float(str(call.ty.dtype)):
            return None
        value = array_of(weight)
        batch = value.shape[:-2]
        lead = shape[: len(shape) - 2 - len(batch)]
        if value.ndim < 3 or shape[len(lead) : -2] != batch or value.shape[-1] % LANES:
            return None
        columns, features = value.shape[-2:]
        groups, rows = math.prod(batch), (*lead, shape[-2])
        if math.prod(rows) > 1 and columns * features < MOVED * (columns + features):
            return None
        if np.count_nonzero(value) > (1 - ZEROS) * value.size:
            return None
        kernel = value.reshape(groups, columns, features).transpose(0, 2, 1)
        kernel = np.ascontiguousarray(kernel.reshape(groups * features, 1, columns))
        # From (lead, batch, row, column) to (lead, row, batch, column), and back.
        first = len(lead)
        last = first + len(batch)
        forth = [*range(first), last, *range(first, last), last + 1]
        moved = rewriter.emit(relax.op.permute_dims(call.args[0], forth))
        moved = rewriter.emit(relax.op.reshape(moved, [1, math.prod(rows), groups * columns]))
        product = relax.op.nn.conv1d(
            moved,
            constant(kernel, name_of(weight)),
            groups=groups,
            data_layout="NWC",
            kernel_layout="OWI",
            out_dtype=str(call.ty.dtype),
        )
        apart = relax.op.reshape(rewriter.emit(product), [*rows, *batch, features])
        self.notes.add(layer_name(weight), f"{groups} matrices, as groups of one convolution")
        return relax.op.permute_dims(rewriter.emit(apart), np.argsort(forth).tolist())
