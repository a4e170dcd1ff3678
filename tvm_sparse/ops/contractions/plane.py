"""Numbers of a convolution's pixels, such that a tap is a constant shift."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import tirx

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import flat

MOST_PADDED = 1.2
"""Width of a plane's rows over their pixels, up to which rows are made whole vectors."""


MOST_COPIED = 32768
"""Elements of all copies that a tile of outputs may meet: four times the first cache."""


class Plane:
    """How the pixels of a convolution are numbered, so that each tap is a constant shift.

    Pixels that ``strides`` part lie in planes of their own, one for each of ``phases``: window
    after window, a tap reads one of them. Positions are numbered through a plane, borders and
    images included, and outputs have the position of their window's first pixel. A vector that
    crosses a line of the cache is loaded twice as long, so planes have copies, which begin at each
    of ``offsets``: no tap's vectors cross one. Long kernels would have too many copies for the
    first cache, and have one, as those that are not ``copied``. ``length`` is that of a copy.
    """

    def __init__(self, c: Contraction, vectors: int, *, copied: bool = True) -> None:
        self.c = c
        self.images = c.lead[: len(c.lead) - len(c.taps)]
        self.extents = tuple(-(-p // s) for p, s in zip(c.padded, c.strides, strict=True))
        self.apart = tuple(math.gcd(d, s) for d, s in zip(c.dilation, c.strides, strict=True))
        windows = zip(c.taps, c.dilation, c.strides, self.apart, strict=True)
        self.phases = tuple(
            max(k * d % s // g for k in range(taps)) + 1 for taps, d, s, g in windows
        )
        whole = -(-self.extents[-1] // LANES) * LANES
        if len(c.taps) > 1 and whole <= MOST_PADDED * self.extents[-1]:
            self.extents = (*self.extents[:-1], whole)
        self.pixels = math.prod((*self.images, *self.extents))
        furthest = max(shift for _, shift in self._taps())
        self.offsets = sorted({shift % LANES for _, shift in self._taps()})
        # What a tile of outputs meets of a group's channels.
        if not copied or c.columns * len(self.offsets) * (vectors * LANES + furthest) > MOST_COPIED:
            self.offsets = [0]
        last = int(self.position([e - 1 for e in c.lead]))
        self.tiles = last // (LANES * vectors) + 1
        reach = self.tiles * LANES * vectors + furthest
        self.length = (1 + -(-reach // LANES)) * LANES

    def position(self, lead: list[Any]) -> Any:
        """Return the position of an output."""
        return flat(lead, (*self.images, *self.extents))

    @property
    def places(self) -> tuple[int, ...]:
        """Where each tap finds the pixel of output 0, among the copies of one channel's planes."""
        found = []
        for phase, shift in self._taps():
            offset = shift % LANES if shift % LANES in self.offsets else 0
            copy = phase * len(self.offsets) + self.offsets.index(offset)
            found.append(copy * self.length + LANES + shift - offset)
        return tuple(found)

    @property
    def copies(self) -> int:
        """Copies of all planes of one channel."""
        return math.prod(self.phases) * len(self.offsets)

    @property
    def step(self) -> int:
        """Positions of one channel."""
        return self.copies * self.length

    def pixel(self, phase: Any, position: Any) -> tuple[Any, ...]:
        """Return the index of the input's pixel at a position; the nearest one beyond the input."""
        position = tirx.min(position, tirx.const(self.pixels - 1, "int64"))
        index = unravel(position, (*self.images, *self.extents))
        plane, phases = index[len(self.images) :], unravel(phase, self.phases)
        c = self.c
        axes = zip(plane, phases, c.strides, self.apart, c.padded, strict=True)
        spatial = [tirx.min(y * s + p * g, tirx.const(n - 1, "int64")) for y, p, s, g, n in axes]
        return (*index[: len(self.images)], *spatial)

    def _taps(self) -> list[tuple[int, int]]:
        """Return the phase and the shift of each tap."""
        found = []
        c = self.c
        for tap in np.ndindex(*c.taps):
            offsets = [k * d for k, d in zip(tap, c.dilation, strict=True)]
            shift = flat([o // s for o, s in zip(offsets, c.strides, strict=True)], self.extents)
            axes = zip(offsets, c.strides, self.apart, strict=True)
            found.append((flat([o % s // g for o, s, g in axes], self.phases), shift))
        return found
