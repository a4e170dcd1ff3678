"""How many thread blocks an SM holds at a time."""

from __future__ import annotations

import math

from tvm_sparse.selection.cuda.assumptions import (
    BLOCK_SHARED,
    SM_BLOCKS,
    SM_REGISTERS,
    SM_THREADS,
    WARP_REGISTERS,
)
from tvm_sparse.selection.cuda.chip import Chip

WARP = 32


def resident_blocks(threads: int, registers: int, shared: int, on: Chip) -> int:
    """Return the blocks of ``threads`` that an SM holds; 0 if not even one fits.

    ``registers`` are those of a thread, as the cubin says, ``shared`` the bytes of a block.
    """
    warps = math.ceil(threads / WARP)
    taken = warps * math.ceil(registers * WARP / WARP_REGISTERS) * WARP_REGISTERS
    return min(
        SM_BLOCKS,
        SM_THREADS // (warps * WARP),
        SM_REGISTERS // max(taken, 1),
        on.shared // (shared + BLOCK_SHARED),
    )
