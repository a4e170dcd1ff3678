"""Format of depthwise weights with pruned taps: the kept taps of 16 channels side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, index_dtype, itemsize
from tvm_sparse.formats.buckets import Buckets, fill
from tvm_sparse.machine.vector import LANES
from tvm_sparse.patterns.depthwise import DepthwiseTaps

WHERE = "depthwise taps format"


@dataclass(frozen=True)
class DepthwiseTapsFormat:
    """Every group of ``lanes`` channels stores its kept taps; groups of a bucket equally many.

    ``shared``: the channels of a group store the same taps, those that any of them keeps, so that
    one vector load serves all; else every channel has taps of its own, as many as the channel
    with most needs.

    Arrays of :meth:`encode`:

    * ``values`` ``(buckets.slots, lanes)``, the matrix's dtype; unused slots are zero.
    * ``taps`` ``(buckets.slots,)`` if shared, else ``(buckets.slots, lanes)``, uint8 (uint16 for
      kernels of more than 256 taps): column ``y * kw + x`` of each value, ascending. Unused
      slots name one that is not kept.
    * ``order`` ``(groups,)`` int32: group of channels at each stored position.
    """

    channels: int
    taps: int
    lanes: int
    shared: bool
    buckets: Buckets

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.lanes < 1 or self.buckets.groups != self.groups:
            raise UnsupportedError(
                WHERE,
                f"{self.buckets.groups} groups of {self.lanes} channels",
                f"all of {self.channels} channels, once",
            )

    @property
    def groups(self) -> int:
        """Groups of ``lanes`` channels."""
        return -(-self.channels // self.lanes)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        indices = (1 if self.shared else self.lanes) * index_dtype(self.taps).itemsize
        return self.buckets.slots * (self.lanes * itemsize(dtype) + indices) + 4 * self.groups

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        pattern: DepthwiseTaps | None = None,
        *,
        lanes: int = LANES,
        shared: bool | None = None,
        limit: int = 4,
    ) -> DepthwiseTapsFormat:
        """Return the format of ``matrix`` ``(channels, kh * kw)`` in at most ``limit`` buckets.

        ``shared=None`` takes what has fewer bytes.
        """
        channels, taps = matrix.shape
        kept = _grouped(matrix != 0, lanes)

        def sized(shared: bool) -> DepthwiseTapsFormat:
            return cls(channels, taps, lanes, shared, fill(_needed(kept, shared), limit))

        if shared is not None:
            return sized(shared)
        return min(sized(True), sized(False), key=lambda f: f.nbytes(matrix.dtype))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(channels, taps)``; raise if a group has too many."""
        matrix = _grouped(finite_matrix(matrix, (self.channels, self.taps), WHERE), self.lanes)
        kept = matrix != 0
        order = self.buckets.order(_needed(kept, self.shared), WHERE)
        owner = np.repeat(order, self.buckets.slots_of)
        if self.shared:
            union = kept.any(1)[order]
            taps = self.buckets.columns(union)
            values = matrix[owner, :, taps]
            values[~self.buckets.used(union.sum(1))] = 0
        else:
            per_lane = [kept[order, lane] for lane in range(self.lanes)]
            taps = np.stack([self.buckets.columns(lane) for lane in per_lane], axis=1)
            values = matrix[owner[:, None], np.arange(self.lanes), taps]
            unused = [~self.buckets.used(lane.sum(1)) for lane in per_lane]
            values[np.stack(unused, axis=1)] = 0
        return {"values": values, "taps": taps.astype(index_dtype(self.taps)), "order": order}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(channels, kh * kw)``; the exact inverse of :meth:`encode`."""
        values, taps = arrays["values"], arrays["taps"].astype(np.int64)
        taps = np.broadcast_to(taps.reshape(len(values), -1), values.shape)
        group = np.repeat(arrays["order"], self.buckets.slots_of)[:, None]
        channel = group * self.lanes + np.arange(self.lanes)
        matrix = np.zeros((self.groups * self.lanes, self.taps), values.dtype)
        used = values != 0
        matrix[channel[used], taps[used]] = values[used]
        return matrix[: self.channels]


def _grouped(matrix: np.ndarray, lanes: int) -> np.ndarray:
    """Return ``matrix`` as ``(groups, lanes, taps)``, padded with zero channels."""
    padded = np.zeros((-(-len(matrix) // lanes) * lanes, matrix.shape[1]), matrix.dtype)
    padded[: len(matrix)] = matrix
    return padded.reshape(-1, lanes, matrix.shape[1])


def _needed(kept: np.ndarray, shared: bool) -> npt.NDArray[np.int64]:
    """Return the taps that each group of ``kept`` ``(groups, lanes, taps)`` stores."""
    return kept.any(1).sum(1) if shared else kept.sum(2).max(1)
