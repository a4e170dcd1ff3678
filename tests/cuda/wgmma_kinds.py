"""The ways to store weights for ``wgmma``, as tests of all of them want them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.cuda.hopper import ARCH, CASES, HALF
from tests.cuda.kernels import scheduled, typed
from tests.kernels import integers
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.swizzled_banks import SwizzledBanksFormat
from tvm_sparse.formats.swizzled_blocks import SwizzledBlocksFormat
from tvm_sparse.formats.swizzled_quads import SwizzledQuadsFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import wgmma
from tvm_sparse.ops.cuda.wgmma import WgmmaTile
from tvm_sparse.ops.cuda.wgmma_weights import KEPT, MATRIX, TWO_FOUR, Weights, banks
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule

Sizes = tuple[int, int, int]
"""Rows and features of a tile, and its stages."""

Case = tuple[tuple[int, ...], int, int, Sizes]
"""Rows, columns and features of a layer, and its tile."""


@dataclass(frozen=True)
class Kind:
    """One way.

    Parameters
    ----------
    weight
        A contraction and the features of a tile -> a weight of small integers that it stores.
    format_of
        A weight and the features of a tile -> the format.
    emit
        A contraction, the format and a tile -> the function.
    weights_of
        The format -> what the tile has of it.
    cases
        What is executed.
    small
        What is broken on purpose.
    """

    weight: Callable[[Contraction, int], np.ndarray]
    format_of: Callable[[np.ndarray, int], Any]
    emit: Callable[[Contraction, Any, WgmmaTile], Any]
    weights_of: Callable[[Any], Weights]
    cases: dict[str, Case]
    small: Case

    def operator(
        self,
        c: Contraction,
        sizes: Sizes,
        matrix: np.ndarray,
        parts: int = 1,
        weights: Weights | None = None,
    ) -> tuple[Any, Any]:
        """Return the scheduled kernel of a weight, and its arrays.

        ``weights`` may be others than those of the kind.
        """
        format = self.format_of(matrix, sizes[1])
        tile = WgmmaTile(*sizes, weights or self.weights_of(format), parts)
        func = scheduled(self.emit(c, format, tile), TileWgmmaRule(), ARCH)
        return func, format.encode(typed(matrix, c.dtype)).values()

    def made(self, case: Case, parts: int = 1, **numerics: str) -> tuple[Any, np.ndarray, Any]:
        """Return the contraction of a case, its weight, and :meth:`operator`."""
        lead, columns, features, sizes = case
        c = Contraction(lead, columns, features, numerics=replace(HALF, **numerics))
        matrix = self.weight(c, sizes[1])
        return c, matrix, self.operator(c, sizes, matrix, parts)


def blocks(c: Contraction, features: int, kept: float = 0.5) -> np.ndarray:
    """Return a weight whose blocks of ``features`` x 64 are kept or zero; not the only row's."""
    rng = np.random.default_rng(0)
    rows, columns = c.matrix_shape
    mask = rng.random((-(-rows // features), -(-columns // 64))) < kept
    mask[-1] = len(mask) == 1  # else a block row without any
    whole = np.repeat(np.repeat(mask, features, 0), 64, 1)[:rows, :columns]
    return integers(rng, c.matrix_shape, 0.3) * whole


def kept(shape: tuple[int, ...], keep: int, bank: int = 32) -> np.ndarray:
    """Return a mask of ``keep`` of ``bank`` neighbouring columns."""
    rows, columns = shape
    scores = np.random.default_rng(0).random((rows, -(-columns // bank) * bank), dtype=np.float32)
    return Balanced(bank, keep).project(scores)[:, :columns]


def balanced(keep: int, bank: int) -> Callable[[Contraction, int], np.ndarray]:
    """Return what makes weights of so many columns of a bank."""
    rng = np.random.default_rng
    return lambda c, _=0: integers(rng(0), c.matrix_shape) * kept(c.matrix_shape, keep, bank)


def dense(c: Contraction, _: int = 0) -> np.ndarray:
    """Return a weight without a pattern."""
    return integers(np.random.default_rng(0), c.matrix_shape)


def _lanes(matrix: np.ndarray, features: int) -> DenseFormat:
    return DenseFormat(*matrix.shape, lanes=-(-len(matrix) // features) * features)


OF_BANKS: dict[str, Case] = {
    "one row": ((1,), 200, 130, (8, 64, 6)),
    "odd rows": ((3, 11), 520, 200, (16, 64, 8)),
    "many steps": ((70,), 1320, 64, (64, 64, 10)),
}
SMALL: Case = ((8,), 640, 64, (8, 64, 5))


def _banks(keep: int) -> Kind:
    """Return the kind of ``keep`` of 32 columns."""
    return Kind(
        balanced(keep, 32),
        lambda matrix, _: SwizzledBanksFormat.of(matrix),
        wgmma.wgmma_banks,
        lambda format: banks(format.slots),
        OF_BANKS,
        ((8,), 1024, 64, (8, 64, 8)),
    )


KINDS = {
    "blocks": Kind(
        blocks, SwizzledBlocksFormat.of, wgmma.wgmma_blocks, lambda _: KEPT, CASES, SMALL
    ),
    "banks": _banks(8),
    "banks of 3": _banks(3),
    "banks of 1": _banks(1),
    "two_four": Kind(
        balanced(2, 4),
        lambda matrix, features: SwizzledQuadsFormat(*matrix.shape, features),
        wgmma.wgmma_two_four,
        lambda _: TWO_FOUR,
        CASES,
        ((8,), 1280, 64, (8, 64, 5)),
    ),
    "matrix": Kind(dense, _lanes, wgmma.wgmma_matrix, lambda _: MATRIX, CASES, SMALL),
}
FOUR = ("blocks", "banks", "two_four", "matrix")
"""Each way once."""
