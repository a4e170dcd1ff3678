"""The ways in which a contraction can be stored and computed on NVIDIA GPUs."""

from __future__ import annotations

import math

from tvm import tirx
from tvm.target import Target

from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.cuda.chip import chip
from tvm_sparse.ops.cuda.multiply import Engine, Scalar, TensorCore
from tvm_sparse.ops.cuda.tile import tiled
from tvm_sparse.ops.cuda.tile_choice import choose_tile
from tvm_sparse.ops.cuda.weights import DenseWeights


def engine(dtype: str) -> Engine:
    """Return how values of ``dtype`` are multiplied: fp32 stays exact, it takes no tensor core."""
    return Scalar() if dtype == "float32" else TensorCore()


def dense(c: Contraction, target: Target) -> tuple[DenseFormat, tirx.PrimFunc]:
    """Return the dense storage and operator."""
    features, columns = c.matrix_shape
    tile = choose_tile(math.prod(c.lead), features, columns, c.dtype, chip(target))
    storage = DenseFormat(features, columns, lanes=tile.features)
    return storage, tiled(c, DenseWeights(storage, tile), tile, engine(c.dtype))
