"""What a kernel demands of a chip, and the time that this takes by the fitted model.

``t = launch + ((memory)^4 + (SM)^4)^(1/4)``: a kernel takes as long as the slower of memory and
SMs, and a little more where both are busy. The same holds for an SM. It works at each step for all
its thread blocks (``busy``), and a wave of them that it holds at a time waits for that step
together. A second kernel, which adds partial sums, follows as a launch of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.selection.cuda.assumptions import ISSUED, PASSED_OVER
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.occupancy import WARP, resident_blocks

SCHEDULERS = 4
"""Of an SM, each with a quarter of its units (data sheet)."""

POWER = 4
"""How sharply the slower of two decides: 1 adds, a large one takes the slower."""


@dataclass(frozen=True)
class Demand:
    """What a kernel does, as one thread block of ``blocks`` does it in each of its ``steps``.

    Parameters
    ----------
    blocks, threads, registers, shared
        The grid, threads of a block, registers of a thread, bytes of shared memory of a block.
    steps, longest, streams
        Rounds in which a block waits for what it has asked for, and those of the longest block, if
        they differ; ``streams`` says that these are chunks of a stream, not steps of a tile.
    dtype
        Of the products.
    nbytes
        Bytes that memory moves for the whole kernel, each once.
    products, passes, fed, issued
        A block's multiply-adds, passes over shared memory, bytes from L2 and instructions of warps
        in a step.
    chain, banks, lookups
        Values that a thread places one after another in a step, banks that it fills, and columns
        that a table names.
    added
        Bytes that a second kernel moves, which adds the sums of all parts of the reduction.
    begun, first
        Lines of L1 that a block's loads touch before its first step, and a thread's loads of them
        that wait for one another.
    """

    blocks: int
    threads: int
    registers: int
    shared: int
    steps: float
    dtype: str
    nbytes: float
    products: float = 0.0
    passes: float = 0.0
    fed: float = 0.0
    issued: float = 0.0
    chain: float = 0.0
    banks: float = 0.0
    lookups: float = 0.0
    longest: float = 0.0
    added: float = 0.0
    begun: float = 0.0
    first: float = 0.0
    streams: bool = False


def seconds(demand: Demand, on: Chip, *, written: bool = False) -> float:
    """Return the modelled time of a kernel.

    ``written`` if a benchmark left written lines in L2 before it, which it must wait for.
    """
    second = memory_and(0.0, demand.added, on) if demand.added else 0.0
    return memory_and(sm_clocks(demand, on), demand.nbytes, on, written=written) + second


def memory_and(clocks: float, nbytes: float, on: Chip, *, written: bool = False) -> float:
    """Return the time of a kernel that computes for ``clocks`` and moves ``nbytes`` meanwhile."""
    memory = nbytes / on.bandwidth
    if written:
        memory += on.costs.written * min(nbytes, on.l2 / 2) / on.bandwidth
    return on.costs.launch + slower(on.costs.memory * memory, clocks / on.clock)


def sm_clocks(demand: Demand, on: Chip) -> float:
    """Return the clocks of an SM: all its blocks' work, and each wave's waiting.

    Block rows of different lengths fall on SMs by chance: the sum of the heaviest one is as far
    above the mean as the root of their number says.
    """
    costs, warps = on.costs, demand.threads // WARP
    resident = resident_blocks(demand.threads, demand.registers, demand.shared, on)
    each = math.ceil(demand.blocks / on.sms)
    at_once = max(1, min(resident, each))
    waves = math.ceil(each / at_once)
    own = busy_clocks(demand, on, _schedulers(warps))
    busy = busy_clocks(demand, on, _schedulers(warps * at_once))
    waiting = (costs.turn if demand.streams else costs.step) + costs.chain * demand.chain
    waiting += costs.bank * demand.banks + costs.lookup * demand.lookups
    begun = demand.begun * costs.line
    longest, once = max(demand.longest, demand.steps), costs.first * demand.first + begun
    # A block passes over the steps that only the longest has.
    alone = demand.steps * (waiting + own) + (longest - demand.steps) * PASSED_OVER + once
    last = longest * (waiting + own) + once
    heaviest = demand.steps + (longest - demand.steps) / math.sqrt(each)
    computing = max(waves * alone, last, each * (heaviest * busy + begun))
    return computing + each * costs.block


def _schedulers(warps: int) -> float:
    """Return the part of an SM's schedulers, and of what they feed, that so many warps keep busy.

    A warp stays with one of them: two keep half of them busy, six three quarters.
    """
    return warps / (SCHEDULERS * math.ceil(warps / SCHEDULERS))


def busy_clocks(demand: Demand, on: Chip, part: float = 1.0) -> float:
    """Return the clocks that a ``part`` of the units of an SM need for a step of one block."""
    costs = on.costs
    # Multiply-adds of lanes are issued, too: their own time counts that.
    issued = demand.issued - (demand.products / WARP if demand.dtype == FLOAT_SUMS else 0.0)
    issue = costs.issue * max(0.0, issued) * WARP / ISSUED / part
    products = demand.products / on.multiply_adds(demand.dtype) / part
    computed = products + costs.pass_ * demand.passes + issue
    return max(computed, demand.fed / costs.feed)


def slower(one: float, other: float) -> float:
    """Return a little more than the larger of two times, twice as much at most."""
    most = max(one, other)
    return most * ((one / most) ** POWER + (other / most) ** POWER) ** (1 / POWER) if most else 0.0
