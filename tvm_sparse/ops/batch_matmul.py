"""Matrix products of two activations, as attention has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from tvm_sparse.engine.registry import single_engine_of
from tvm_sparse.numerics import FLOAT32, Numerics
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import OPERATOR, OUT_FUSABLE, ROWS, flat, int64, row_axis

PACK = "pack"
"""Name of the block that copies the right operand into rows."""

UNSEEN = "unseen"
"""Name of the block that holds a result whose view is stored; the view is computed into it."""


@dataclass(frozen=True)
class View:
    """An activation seen through reshapes, transposes and slices that cost nothing here.

    ``steps`` are applied in order to a tensor of ``shape``: ``("reshape", shape)``,
    ``("permute_dims", axes)`` or ``("strided_slice", (*begins, *extents))`` of all axes.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the tensor and after each step."""
        shapes = [self.shape]
        for step, argument in self.steps:
            if step == "permute_dims":
                shapes.append(tuple(shapes[-1][axis] for axis in argument))
            else:
                shapes.append(argument if step == "reshape" else _halves(argument)[1])
        return shapes

    def apply(self, x: te.Tensor, name: str) -> Any:
        """Return the viewed TE tensor."""
        viewed = self.shapes[-1]

        def element(*index: Any) -> Any:
            analyzer = Analyzer()
            for axis, extent in zip(index, viewed, strict=True):
                analyzer.bind(axis, tvm.ir.Range(0, tirx.const(extent, "int64")))
            return x[tuple(analyzer.simplify(i) for i in self.source(index))]

        return te.compute(int64(viewed), element if self.steps else lambda *i: x[i], name)

    def contiguous(self) -> bool:
        """Whether neighbours along the last viewed axis are neighbours in memory."""
        return bool((np.diff(self.places(), axis=-1) == 1).all())

    def keeps_rows(self) -> bool:
        """Whether all elements are seen, and neighbours along the last axis as neighbours."""
        places = self.places()
        if places.size != math.prod(self.shape):
            return False
        seen_at = np.argsort(places, axis=None).reshape(self.shape)
        return bool((np.diff(seen_at, axis=-1) == 1).all())

    def places(self) -> np.ndarray:
        """Return where in memory each viewed element lies."""
        index = np.indices(self.shapes[-1], sparse=True)
        places: np.ndarray = flat(self.source(index), self.shape)
        return np.broadcast_to(places, self.shapes[-1])

    def source(self, index: Sequence[Any]) -> list[Any]:
        """Return the index in the tensor of the viewed element at ``index``."""
        at = list(index)
        steps = zip(reversed(self.steps), reversed(self.shapes[:-1]), strict=True)
        for (step, argument), before in steps:
            if step == "reshape":
                at = unravel(flat(at, argument), before)
            elif step == "permute_dims":
                at = [at[argument.index(axis)] for axis in range(len(before))]
            else:
                at = [i + begin for i, begin in zip(at, _halves(argument)[0], strict=True)]
        return at


def _halves(argument: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the begins and the extents of a slice."""
    rank = len(argument) // 2
    return argument[:rank], argument[rank:]


def batch_matmul(
    left: View, right: View, output: View, target: Target, numerics: Numerics = FLOAT32
) -> tirx.PrimFunc:
    """Return ``f(A, B, Y)``: ``Y`` is ``output`` of ``sum_k A[..., m, k] * B[..., k, n]``.

    ``A`` and ``B`` have the views' base shapes; leading axes of ``B`` broadcast as NumPy's do. A
    right operand whose rows are not contiguous is packed first. ``output`` keeps rows.
    """
    engine = single_engine_of(numerics, target)
    a_base = te.placeholder(int64(left.shape), numerics.activation, "A")
    b_base = te.placeholder(int64(right.shape), engine.held, "B")
    a = left.apply(a_base, "left")
    b = right.apply(b_base, "right" if right.contiguous() else PACK)
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def product(*index: Any) -> Any:
        *lead, row, column = index
        x = a[(*_broadcast(lead, a), row, k.var)]
        return te.sum(x * b[(*_broadcast(lead, b), k.var, column)], axis=[k])

    attrs = {OPERATOR: "matmul", ROWS: row_axis(output.shape[:-1])}
    acc = te.compute(int64(output.shape), product, name="contract", attrs=attrs)
    unseen = te.compute(acc.shape, lambda *i: acc[i], UNSEEN) if output.steps else acc
    y = output.apply(unseen, "store")
    func = te.create_prim_func([a_base, b_base, y]).with_attr("op_pattern", OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)


def _broadcast(lead: list[Any], tensor: Any) -> list[Any]:
    """Leading index of ``tensor`` for the output's leading index ``lead``."""
    own = list(tensor.shape[:-2])
    aligned = lead[len(lead) - len(own) :]
    return [0 if int(e) == 1 else i for i, e in zip(aligned, own, strict=True)]
