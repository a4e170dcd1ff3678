"""Matrix products of two activations, as attention has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx, topi

from tvm_sparse.ops.marks import KIND, OUT_FUSABLE, ROWS, int64, row_axis

PACK = "pack"
"""Name of the block that copies the right operand into rows."""


@dataclass(frozen=True)
class View:
    """An activation seen through reshapes, transposes and slices that cost nothing here.

    ``steps`` are applied in order to a tensor of ``shape``: ``("reshape", shape)``,
    ``("permute_dims", axes)`` or ``("strided_slice", (*begins, *extents))`` of all axes.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def apply(self, x: Any) -> Any:
        """Return the viewed TE tensor."""
        for step, argument in self.steps:
            if step == "reshape":
                x = topi.reshape(x, argument)
            elif step == "permute_dims":
                x = topi.transpose(x, argument)
            else:
                x = _sliced(x, argument)
        return x

    def contiguous(self) -> bool:
        """Whether neighbours along the last viewed axis are neighbours in memory."""
        index = np.arange(math.prod(self.shape)).reshape(self.shape)
        for step, argument in self.steps:
            if step == "reshape":
                index = index.reshape(argument)
            elif step == "permute_dims":
                index = index.transpose(argument)
            else:
                begins, extents = _halves(argument)
                index = index[tuple(slice(b, b + e) for b, e in zip(begins, extents, strict=True))]
        return bool((np.diff(index, axis=-1) == 1).all())


def _sliced(x: te.Tensor, argument: tuple[int, ...]) -> te.Tensor:
    begins, extents = _halves(argument)
    return te.compute(
        int64(extents),
        lambda *i: x[tuple(a + b for a, b in zip(i, begins, strict=True))],
        name="strided_slice",
    )


def _halves(argument: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the begins and the extents of a slice."""
    rank = len(argument) // 2
    return argument[:rank], argument[rank:]


def batch_matmul(left: View, right: View, output: tuple[int, ...], dtype: str) -> tirx.PrimFunc:
    """Return ``f(A, B, Y)``: ``Y[..., m, n] = sum_k A[..., m, k] * B[..., k, n]``.

    ``A`` and ``B`` have the views' base shapes; leading axes of ``B`` broadcast as NumPy's do. A
    right operand whose rows are not contiguous is packed first.
    """
    a_base = te.placeholder(int64(left.shape), dtype, "A")
    b_base = te.placeholder(int64(right.shape), dtype, "B")
    a, b = left.apply(a_base), right.apply(b_base)
    read = b if right.contiguous() else te.compute(b.shape, lambda *i: b[i], name=PACK)
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def product(*index: Any) -> Any:
        *lead, row, column = index
        x = a[(*_broadcast(lead, a), row, k.var)]
        return te.sum(x * read[(*_broadcast(lead, b), k.var, column)], axis=[k])

    attrs = {KIND: "matmul", ROWS: row_axis(output[:-1])}
    acc = te.compute(int64(output), product, name="contract", attrs=attrs)
    y = te.compute(int64(output), lambda *i: acc[i], name="store")
    func = te.create_prim_func([a_base, b_base, y]).with_attr("op_pattern", OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)


def _broadcast(lead: list[Any], tensor: Any) -> list[Any]:
    """Leading index of ``tensor`` for the output's leading index ``lead``."""
    own = list(tensor.shape[:-2])
    aligned = lead[len(lead) - len(own) :]
    return [0 if int(e) == 1 else i for i, e in zip(aligned, own, strict=True)]
