"""The transpositions around a convolution that is channels last, where its neighbours are not."""

from __future__ import annotations

import math

import numpy as np
from tvm import te, tirx

from tvm_sparse.base.numerics import samples
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.planes import planes_shapes
from tvm_sparse.ops.tensors.permute import Permutation, permute
from tvm_sparse.selection.measure import Data

BEFORE, BEHIND = "transposition before", "transposition behind"


def transpositions(c: Contraction) -> dict[str, tuple[tirx.PrimFunc, Data]]:
    """Return those of input and output by their names, with what to time each on.

    ``c`` has its own borders. What no operator of ours transposes is left out.
    """
    images = math.prod(c.lead[: len(c.lead) - len(c.taps)])
    first, last = (
        (images, shape[-len(c.taps) - 1], math.prod(shape[-len(c.taps) :]))
        for shape in planes_shapes(c)
    )
    found = {BEFORE: first, BEHIND: (last[0], last[2], last[1])}
    return {name: _transposition(shape, c.dtype) for name, shape in found.items() if _ours(shape)}


def _ours(shape: tuple[int, ...]) -> bool:
    plain = Permutation.of(shape, (0, 2, 1))
    return plain.turns_tiles() or plain.interleaves()


def _transposition(shape: tuple[int, ...], dtype: str) -> tuple[tirx.PrimFunc, Data]:
    """Return the function that swaps the last two of three axes."""
    swapped = (shape[0], shape[2], shape[1])
    x = te.placeholder(shape, dtype, "X")
    func = te.create_prim_func([x, permute(x, Permutation.of(shape, (0, 2, 1)), swapped)])
    return func, Data(samples(np.random.default_rng(0), shape, dtype), [], swapped, dtype)
