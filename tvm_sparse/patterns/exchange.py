"""Within which bounds a kept part of a mask may change places with a pruned one."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_sparse.errors import InputError


@dataclass(frozen=True)
class Exchange:
    """What a pattern keeps or prunes as a whole, and where else it may be kept instead.

    A *unit* has ``height`` rows, ``apart`` rows from each other, and ``width`` neighbouring
    columns. Units of the same rows whose columns lie in the same ``pool`` of neighbouring columns
    (``None``: all) may change places: the mask has the same pattern afterwards.

    ``blocks`` are the extents of blocks that are kept or pruned by themselves: a unit only takes a
    place in a block that holds a kept weight already; ``None``: anywhere.
    """

    height: int = 1
    apart: int = 1
    width: int = 1
    pool: int | None = None
    blocks: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuse extents that describe no unit, and pools that cut one."""
        pool = self.width if self.pool is None else self.pool
        extents = (self.height, self.apart, self.width, pool, *(self.blocks or ()))
        if min(extents) < 1 or pool % self.width:
            raise InputError("exchange", str(self), "extents >= 1, whole units in a pool")
