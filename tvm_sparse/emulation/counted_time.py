"""Time of a kernel on a GPU, modelled from what the executor counted and the compiler allotted."""

from __future__ import annotations

import math

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.cuda.resources import KernelResources
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import Demand, seconds
from tvm_sparse.selection.cuda.occupancy import WARP, resident_blocks
from tvm_sparse_emulator.report import Launch

SECTOR = 32
"""Bytes of a sector of global memory."""

TENSOR = "float16"
"""Dtype whose rate is that of tensor cores."""


def launch_seconds(launch: Launch, resources: KernelResources, nbytes: int, on: Chip) -> float:
    """Return the modelled time of ``launch``, by the model that was fitted to measured kernels.

    Parameters
    ----------
    launch
        Counts; of some blocks of the grid, if the others were not executed.
    resources
        What the cubin says of the kernel.
    nbytes
        Those of all operands of the function, which may launch several kernels.

    Raises
    ------
    UnsupportedError
        Not even one block fits into an SM.
    """
    demand = launch_demand(launch, resources, nbytes)
    if resident_blocks(demand.threads, demand.registers, demand.shared, on) == 0:
        raise UnsupportedError(
            f"kernel '{launch.kernel}'",
            f"{demand.threads} threads of {demand.registers} registers, {demand.shared} bytes"
            " shared",
            f"a block that fits into an SM of {on.name}",
        )
    return seconds(demand, on)


def launch_demand(launch: Launch, resources: KernelResources, nbytes: int) -> Demand:
    """Return what ``launch`` demands of a chip, as counted.

    A block has a step for each time that a warp of it waits for copies. What waits inside a warp is
    not counted: a chain of loads looks as fast as loads side by side. Memory gives each of
    ``nbytes`` once: caches have it when another block asks again. A kernel that touches fewer, as
    one that adds partial sums does, moves those alone.
    """
    threads, blocks = math.prod(launch.block), launch.blocks
    touched = (launch.load_bytes + launch.store_bytes) / blocks * math.prod(launch.grid)
    warps = math.ceil(threads / WARP)
    steps = max(1.0, launch.waits / (blocks * warps))

    def each(count: float) -> float:
        return count / (blocks * steps)

    return Demand(
        blocks=math.prod(launch.grid),
        threads=threads,
        registers=resources.registers,
        shared=launch.shared,
        steps=steps,
        dtype=TENSOR if launch.warps.get("tensor") else FLOAT_SUMS,
        nbytes=min(nbytes, touched),
        products=each(launch.multiply_adds),
        passes=each(launch.shared_passes),
        fed=each(launch.load_sectors * SECTOR),
        issued=each(sum(launch.warps.values())),
        streams=launch.waits == 0,
    )
