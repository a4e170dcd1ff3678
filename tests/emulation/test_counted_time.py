"""Modelled times follow the unit that has most to do."""

import dataclasses

import pytest

from tvm_sparse.emulation.counted_time import launch_seconds
from tvm_sparse.emulation.report import Launch
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.cuda.resources import KernelResources
from tvm_sparse.selection.cuda.assumptions import (
    BARRIER_CLOCKS,
    H200,
    LAUNCH_SECONDS,
    MEMORY_CLOCKS,
)

SMALL = KernelResources(registers=32, stack=0, shared=0)
COUNTS = dict.fromkeys(
    (f.name for f in dataclasses.fields(Launch) if f.type == "int" and f.name != "blocks"), 0
)


def launch(blocks=132, executed=1, threads=128, **counts):
    given = {"warps": {}, "lanes": {}, **COUNTS, **counts}
    return Launch("k", (blocks, 1, 1), (threads, 1, 1), blocks=executed, **given)


def clocks(one, resources=SMALL, nbytes=0):
    return (launch_seconds(one, resources, nbytes, H200) - LAUNCH_SECONDS) * H200.clock


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ({"warps": {"fma": 40000}}, 40000 * 32 / 128),
        ({"warps": {"alu": 40000}}, 40000 * 32 / 64),
        ({"warps": {"fma": 30000, "memory": 30000}}, 30000),
        ({"shared_passes": 50000, "warps": {"memory": 20000}}, 50000),
        ({"load_sectors": 30000, "store_sectors": 10000}, 40000 * 32 / 32),
        ({"warps": {"tensor": 9000}, "multiply_adds": 620 * 70000}, 70000),
    ],
)
def test_the_busiest_unit_decides(counts, wanted):
    assert clocks(launch(**counts)) == pytest.approx(wanted)


def test_counts_of_a_part_of_the_grid_stand_for_all():
    whole = launch(blocks=264, executed=264, warps={"fma": 264 * 40000})
    part = launch(blocks=264, executed=3, warps={"fma": 3 * 40000})
    assert clocks(whole) == pytest.approx(clocks(part)) == pytest.approx(2 * 10000)


def test_blocks_of_one_sm_hide_each_others_waiting():
    # Two of the 132 * 16 blocks' worth of registers fit, or sixteen.
    one = launch(blocks=132 * 16, waits=40, barriers=8, warps={"fma": 400})
    waits = MEMORY_CLOCKS * 11 + BARRIER_CLOCKS * 2
    assert clocks(one) == pytest.approx(max(16 * 100, waits))
    few = KernelResources(registers=255, stack=0, shared=0)
    assert clocks(one, few) == pytest.approx(8 * waits)


def test_memory_bounds_the_whole_gpu():
    assert launch_seconds(launch(), SMALL, 10**9, H200) == pytest.approx(
        LAUNCH_SECONDS + 1e9 / H200.bandwidth
    )


def test_a_block_that_fits_no_sm_is_refused():
    with pytest.raises(UnsupportedError, match="fits into an SM"):
        clocks(launch(threads=1024), KernelResources(registers=128, stack=0, shared=0))
