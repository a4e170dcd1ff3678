"""What of a convolution is packed together: everything, an image, or a strip of an open plane."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tirx

from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.plane import Plane

STRIP = 1024
"""Outputs of a strip, about: its packed channels stay in the second cache."""

FEWEST, MOST = 8, 64
"""Lines of a strip: each strip packs again what windows meet of the one before."""


@dataclass(frozen=True)
class PackedParts:
    """How a convolution ``c`` is cut into parts whose pixels have constant distances.

    Images of known extents are one part. Of an open batch, each image is one. Where one spatial
    axis is open, its lead axis ``open_axis``, each strip of so many ``lines`` along it is one; the
    last strip may reach beyond the end, where the nearest pixels stand for those that are missing.
    """

    c: Contraction
    open_axis: int | None = None

    @staticmethod
    def of(c: Contraction) -> PackedParts | None:
        """Return the parts of ``c``; ``None`` if several axes are open, or one of many images."""
        images = len(c.lead) - len(c.taps)
        still_open = [axis for axis, extent in enumerate(c.lead) if not isinstance(extent, int)]
        if all(axis < images for axis in still_open):
            return PackedParts(c)
        one = len(still_open) == 1 and math.prod(c.lead[:images]) == 1
        return PackedParts(c, still_open[0]) if one else None

    @property
    def counts(self) -> tuple[Any, ...]:
        """How many parts there are along each of their axes, the outer ones of the packed input."""
        if self.open_axis is not None:
            return (tirx.ceildiv(self.c.lead[self.open_axis], self.lines),)
        images = self._images
        return () if all(isinstance(extent, int) for extent in images) else images

    @property
    def lines(self) -> int:
        """Lines of a strip."""
        others = math.prod(e for axis, e in enumerate(self.c.lead) if axis != self.open_axis)
        return max(FEWEST, min(MOST, STRIP // others))

    @property
    def strip(self) -> tuple[int, ...]:
        """The lead axis that is cut into strips, and their lines; nothing if none is."""
        return () if self.open_axis is None else (self.open_axis, self.lines)

    def plane(self, vectors: int) -> Plane:
        """Return the numbers of the pixels of one part, for tiles of so many ``vectors``.

        The open axis is the first one of a strip.
        """
        c = self.c
        if self.open_axis is None:
            return Plane(replace(c, lead=c.lead[len(self.counts) :]), vectors)
        taps, strides, dilation, padded, spatial = (
            tuple(of[axis] for axis in self._order)
            for of in (c.taps, c.strides, c.dilation, c.padded, c.lead[len(self._images) :])
        )
        high = (self.lines - 1) * strides[0] + (taps[0] - 1) * dilation[0] + 1
        lead, padded = (self.lines, *spatial[1:]), (high, *padded[1:])
        shape = lead, c.columns, c.features, taps, strides, dilation, padded
        return Plane(Contraction(*shape, groups=c.groups), vectors)

    def places(self, plane: Plane) -> tuple[int, ...]:
        """Return where each tap of ``c``, row-major, finds the pixel of a part's output 0."""
        taps, axes = self.c.taps, range(len(self.c.taps))
        order = axes if self.open_axis is None else self._order
        turned = np.arange(math.prod(taps)).reshape([taps[axis] for axis in order])
        return tuple(plane.places[tap] for tap in turned.transpose(np.argsort(order)).ravel())

    def split(self, lead: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the part of an output, and the output's index in it."""
        if self.open_axis is None:
            return lead[: len(self.counts)], lead[len(self.counts) :]
        spatial = lead[len(self._images) :]
        first, *others = (spatial[axis] for axis in self._order)
        return [first // self.lines], [first % self.lines, *others]

    def pixel(self, part: list[Any], index: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return where the pixel ``index`` of a part is in the input, without the channel."""
        if self.open_axis is None:
            return (*part, *index)
        axis = self._order[0]
        first = part[0] * (self.lines * self.c.strides[axis]) + index[0]
        turned = (tirx.min(first, self.c.padded[axis] - 1), *index[1:])
        return (0,) * len(self._images) + tuple(turned[i] for i in np.argsort(self._order))

    @property
    def _images(self) -> tuple[Any, ...]:
        return self.c.lead[: len(self.c.lead) - len(self.c.taps)]

    @property
    def _order(self) -> list[int]:
        """Spatial axes in the order that strips have them."""
        first = (self.open_axis or 0) - len(self._images)
        return [first, *(axis for axis in range(len(self.c.taps)) if axis != first)]
