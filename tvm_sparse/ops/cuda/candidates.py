"""The ways in which a contraction can be stored and computed on NVIDIA GPUs."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.target import Target

from tvm_sparse.formats.dense import DenseFormat, DenseTapFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.cuda.chip import chip
from tvm_sparse.ops.cuda.depthwise import Strip, depthwise
from tvm_sparse.ops.cuda.multiply import Engine, Scalar, TensorCore
from tvm_sparse.ops.cuda.tile import tiled
from tvm_sparse.ops.cuda.tile_choice import choose_tile
from tvm_sparse.ops.cuda.weights import DenseWeights


def engine(dtype: str) -> Engine:
    """Return how values of ``dtype`` are multiplied: fp32 stays exact, it takes no tensor core."""
    return Scalar() if dtype == "float32" else TensorCore()


def dense(c: Contraction, target: Target) -> tuple[Any, tirx.PrimFunc]:
    """Return the dense storage and operator."""
    features, columns = c.matrix_shape
    if c.depthwise:
        # A window of 16-bit vectors takes twice the registers of an fp32 one.
        strip = Strip(2, 4) if c.dtype == "float32" else Strip(2, 2)
        return DenseTapFormat(features, columns), depthwise(c, strip)
    tile = choose_tile(math.prod(c.lead), features, columns, c.dtype, chip(target))
    storage = DenseFormat(features, columns, lanes=tile.features)
    return storage, tiled(c, DenseWeights(storage, tile), tile, engine(c.dtype))
