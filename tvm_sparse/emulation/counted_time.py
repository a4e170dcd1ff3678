"""Time of a kernel on a GPU, modelled from what the executor counted and the compiler allotted."""

from __future__ import annotations

import math

from tvm_sparse.emulation.report import Launch
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.cuda.resources import KernelResources
from tvm_sparse.selection.cuda.assumptions import (
    BARRIER_CLOCKS,
    ISSUED,
    LAUNCH_SECONDS,
    MEMORY_CLOCKS,
    Chip,
)
from tvm_sparse.selection.cuda.occupancy import WARP, resident_blocks

SECTOR = 32
"""Bytes of a sector of global memory."""

TENSOR = "float16"
"""Dtype whose rate is that of tensor cores."""


def launch_seconds(launch: Launch, resources: KernelResources, nbytes: int, on: Chip) -> float:
    """Return the modelled time of ``launch``.

    An SM works on as many blocks at a time as its registers, threads and shared memory allow. It
    takes as long as its busiest unit needs for all of them, but not less than one block waits for
    memory and barriers. The GPU takes not less than its memory needs for ``nbytes``, those of all
    operands.

    Parameters
    ----------
    launch
        Counts; of some blocks of the grid, if the others were not executed.
    resources
        What the cubin says of the kernel.

    Raises
    ------
    UnsupportedError
        Not even one block fits into an SM.
    """
    threads, grid = math.prod(launch.block), math.prod(launch.grid)
    resident = resident_blocks(threads, resources.registers, launch.shared, on)
    if resident == 0:
        raise UnsupportedError(
            f"kernel '{launch.kernel}'",
            f"{threads} threads of {resources.registers} registers, {launch.shared} bytes shared",
            f"a block that fits into an SM of {on.name}",
        )
    each = math.ceil(grid / on.sms)
    busy, waits = _busy_clocks(launch, on), _waiting_clocks(launch, threads)
    full, rest = divmod(each, resident)
    clocks = full * max(resident * busy, waits) + (max(rest * busy, waits) if rest else 0.0)
    return LAUNCH_SECONDS + max(clocks / on.clock, nbytes / on.bandwidth)


def _busy_clocks(launch: Launch, on: Chip) -> float:
    """Return the clocks that the busiest unit of an SM needs for one block."""
    tensor = launch.multiply_adds if launch.warps.get("tensor") else 0
    pipes = [WARP * launch.warps.get(pipe, 0) / rate for pipe, rate in on.pipes.items()]
    sectors = launch.load_sectors + launch.store_sectors
    units = [
        *pipes,
        WARP * sum(launch.warps.values()) / ISSUED,
        tensor / on.multiply_adds[TENSOR],
        launch.shared_passes,
        sectors * SECTOR / on.feed,
    ]
    return max(units) / launch.blocks


def _waiting_clocks(launch: Launch, threads: int) -> float:
    """Return the clocks that one block waits if it is alone: for first bytes, copies, barriers."""
    warps = launch.blocks * math.ceil(threads / WARP)
    return MEMORY_CLOCKS * (1 + launch.waits / warps) + BARRIER_CLOCKS * launch.barriers / warps
