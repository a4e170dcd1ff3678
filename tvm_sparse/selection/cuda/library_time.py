"""What a dense library would take for a layer: to call it, or to tell a user who may."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cuda.chip import Chip, DenseLibrary
from tvm_sparse.selection.cuda.demand import slower
from tvm_sparse.selection.cuda.tile_choice import activation_bytes, known_rows

TILE = 32
"""Rows of activations that a library fills up to, unless there is a single one."""

CHANNELS = 8
"""Channels of an input that a library fills up to."""

FASTER = 1.1
"""How many times faster a library must be modelled to be named."""

QUADS, STORED = 8, 9 / 16
"""Rows of activations of which cuSPARSELt takes multiples; its bytes of 2:4 weights over those of
dense ones."""


Size = tuple[int, int, int]
"""Rows of activations, features and columns."""


def dense_seconds(size: Size, dtype: str, on: Chip, library: DenseLibrary) -> float:
    """Return the time of a dense product: the modelled one, corrected by the library's table.

    What the table's times are over modelled ones is interpolated between its sizes, logarithms over
    logarithms; beyond its ends it is that of the end.
    """
    table, modelled = library.table, modelled_seconds(size, dtype, on, library)
    if table is None or dtype not in table.us:
        return modelled
    axes = (table.rows, table.features, table.columns)
    correction = 0.0
    for corner in itertools.product(*map(_beside, size, axes)):
        row, feature, column = (place for place, _ in corner)
        near = (table.rows[row], table.features[feature], table.columns[column])
        measured = table.us[dtype][row][feature][column] * 1e-6
        share = math.prod(share for _, share in corner)
        correction += share * math.log(measured / modelled_seconds(near, dtype, on, library))
    return modelled * math.exp(correction)


def _beside(extent: int, axis: list[int]) -> list[tuple[int, float]]:
    """Return the places in ``axis`` beside an extent, and how much each of them counts."""
    place = float(np.interp(math.log(extent), np.log(axis), range(len(axis))))
    low = min(int(place), len(axis) - 2)
    return [(low, low + 1 - place), (low + 1, place - low)]


def convolution_seconds(c: Contraction, on: Chip) -> float:
    """Return the modelled time of cuDNN: a product of as many sums, whose input is read once.

    It is corrected by measured ones, as far as there are any. Without them, those of ResNet-50
    together are near the whole network's (``tests/cuda/test_convolution_options.py``).
    """
    channels = math.ceil(c.columns / CHANNELS) * CHANNELS
    size = (known_rows(c.lead), c.features, channels * math.prod(c.taps))
    nbytes = activation_bytes(c) + math.prod(c.matrix_shape) * bits_of(c.dtype) / 8
    return on.library.windows.theirs * _seconds(size, nbytes, c.dtype, on, on.library)


def two_four_seconds(size: Size, dtype: str, on: Chip) -> float:
    """Return the modelled time of cuSPARSELt's 2:4 product, of 16-bit numbers.

    Rows that fill up no multiple of :data:`QUADS` are a second product, of as many.
    """
    rows, features, columns = size
    quads, rest = on.library.quads, rows % QUADS
    filled = rows - rest
    nbytes = (filled * (features + columns) + STORED * features * columns) * bits_of(dtype) / 8
    peak = 2 * on.peaks[dtype] * quads.part
    products = filled * features * columns / (on.sms * on.clock * peak)
    reading = on.library.memory * nbytes / on.bandwidth
    working = slower(products, quads.step * columns / on.clock)
    own = on.library.launch + slower(reading, working) if filled else 0.0
    return own + (two_four_seconds((QUADS, features, columns), dtype, on) if rest else 0.0)


def modelled_seconds(size: Size, dtype: str, on: Chip, library: DenseLibrary) -> float:
    """Return the modelled time of a dense product."""
    rows, features, columns = size
    nbytes = (rows * features + rows * columns + features * columns) * bits_of(dtype) / 8
    return _seconds(size, nbytes, dtype, on, library)


def _seconds(size: Size, nbytes: float, dtype: str, on: Chip, library: DenseLibrary) -> float:
    """Return the modelled time of a product that moves so many bytes."""
    rows, features, columns = size
    filled = 1 if rows == 1 else math.ceil(rows / TILE) * TILE
    products = (
        filled * features * columns / (on.sms * on.clock * on.peaks[dtype] * library.parts[dtype])
    )
    return library.launch + slower(library.memory * nbytes / on.bandwidth, products)


def faster_library(c: Contraction, ours: float, on: Chip) -> str:
    """Return a sentence if a dense library is modelled clearly faster than ``ours`` seconds."""
    if c.depthwise or c.dtype not in on.library.parts:
        return ""
    size = (known_rows(c.lead), *c.matrix_shape)
    theirs = dense_seconds(size, c.dtype, on, on.library)
    if ours < FASTER * theirs:
        return ""
    return (
        f"a dense library would be faster by the model: {on.library.name} {theirs * 1e6:.1f} us,"
        f" ours {ours * 1e6:.1f} us"
    )
