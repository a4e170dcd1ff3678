"""What the executor counted becomes a demand, and its time is that of the fitted model."""

import dataclasses
from dataclasses import replace

import pytest

from tvm_sparse.emulation.counted_time import launch_demand, launch_seconds
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.cuda.resources import KernelResources
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.demand import seconds
from tvm_sparse_emulator.report import Launch

H200 = load("h200")
SMALL = KernelResources(registers=32, stack=0, shared=0)
COUNTS = dict.fromkeys(
    (f.name for f in dataclasses.fields(Launch) if f.type == "int" and f.name != "blocks"), 0
)


def launch(blocks=132, executed=1, threads=128, **counts):
    given = {"warps": {}, "lanes": {}, **COUNTS, **counts}
    return Launch("k", (blocks, 1, 1), (threads, 1, 1), blocks=executed, **given)


def test_counts_are_those_of_a_block_and_a_step():
    # Two blocks of four warps, each of which waits five times.
    counts = {"shared_passes": 800, "load_sectors": 400, "load_bytes": 99, "multiply_adds": 6000}
    one = launch(executed=2, waits=40, warps={"fma": 100, "alu": 60}, **counts)
    demand = launch_demand(one, SMALL, 77)
    assert (demand.blocks, demand.threads, demand.registers, demand.nbytes) == (132, 128, 32, 77)
    assert (demand.steps, demand.passes, demand.fed) == (5, 80, 40 * 32)
    assert (demand.issued, demand.products, demand.dtype) == (16, 600, "float32")
    assert not demand.streams
    assert launch_seconds(one, SMALL, 77, H200) == seconds(demand, H200)


def test_a_kernel_that_touches_little_moves_that_alone():
    """The one that adds partial sums does not read the weights again."""
    one = launch(blocks=8, executed=2, load_bytes=600, store_bytes=200)
    assert launch_demand(one, SMALL, 10**9).nbytes == 8 * 400
    assert launch_demand(one, SMALL, 77).nbytes == 77


def test_tensor_cores_have_their_own_rate():
    tensor = launch(warps={"tensor": 9}, multiply_adds=10**7)
    scalar = launch(warps={"fma": 9}, multiply_adds=10**7)
    times = [launch_seconds(one, SMALL, 0, H200) for one in (tensor, scalar)]
    assert times[0] < times[1] / 2


def test_counts_of_a_part_of_the_grid_stand_for_all():
    whole = launch(blocks=264, executed=264, warps={"fma": 264 * 40000})
    part = launch(blocks=264, executed=3, warps={"fma": 3 * 40000})
    assert launch_seconds(whole, SMALL, 0, H200) == launch_seconds(part, SMALL, 0, H200)


def test_blocks_of_one_sm_hide_each_others_waiting():
    one = launch(blocks=132 * 16, waits=40, warps={"fma": 400})
    few = KernelResources(registers=255, stack=0, shared=0)
    own = replace(H200, costs=replace(H200.costs, block=0.0, launch=0.0))
    times = [launch_seconds(one, used, 0, own) for used in (SMALL, few)]
    assert times[1] == pytest.approx(8 * times[0], rel=0.05)  # two blocks instead of sixteen


def test_a_block_that_fits_no_sm_is_refused():
    with pytest.raises(UnsupportedError, match="fits into an SM"):
        launch_seconds(launch(threads=1024), KernelResources(128, 0, 0), 0, H200)
