"""Times of the fitted model follow from memory, SMs, waves and waiting."""

from dataclasses import replace

import pytest

from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.demand import (
    Demand,
    busy_clocks,
    memory_and,
    seconds,
    slower,
    sm_clocks,
)

MEASURED = load("h200")
H200 = replace(MEASURED, costs=replace(MEASURED.costs, block=0.0))
COSTS = H200.costs
ONE = Demand(132, 128, 64, 1024, steps=10, dtype="float16", nbytes=0)


def test_a_step_waits_and_computes():
    assert sm_clocks(ONE, H200) == pytest.approx(10 * COSTS.step)
    assert sm_clocks(replace(ONE, streams=True), H200) == pytest.approx(10 * COSTS.turn)
    more = replace(ONE, passes=1000, chain=5, banks=2, lookups=3)
    step = COSTS.step + 5 * COSTS.chain + 2 * COSTS.bank + 3 * COSTS.lookup
    assert sm_clocks(more, H200) == pytest.approx(10 * (step + 1000 * COSTS.pass_))


def test_products_have_the_rate_of_their_dtype():
    clocks = {
        dtype: sm_clocks(replace(ONE, dtype=dtype, products=10**6), H200) - 10 * COSTS.step
        for dtype in ("float16", "bfloat16", "float32")
    }
    assert clocks["float16"] == clocks["bfloat16"]
    peaks = H200.peaks["float16"] * COSTS.tensor / (H200.peaks["float32"] * COSTS.scalar)
    assert clocks["float32"] / clocks["float16"] == pytest.approx(peaks)


def test_blocks_beyond_one_for_each_sm_wait_together_but_compute_in_turns():
    two = replace(ONE, blocks=133)
    assert sm_clocks(two, H200) == sm_clocks(ONE, H200)
    busy = replace(ONE, issued=40000)
    once = sm_clocks(busy, H200)
    assert 1.9 * once < sm_clocks(replace(busy, blocks=264), H200) < 2 * once
    alone = replace(two, shared=H200.shared // 2)
    assert sm_clocks(alone, H200) == pytest.approx(2 * sm_clocks(ONE, H200))


def test_what_comes_from_l2_arrives_while_an_sm_computes():
    fed = replace(ONE, passes=1000, fed=10.0)
    assert sm_clocks(fed, H200) == sm_clocks(replace(fed, fed=0.0), H200)
    assert sm_clocks(replace(fed, fed=10**6), H200) > sm_clocks(fed, H200)


def test_what_is_read_before_the_first_step_counts_once():
    later = replace(ONE, begun=100, first=3)
    added = sm_clocks(later, H200) - sm_clocks(ONE, H200)
    assert added == pytest.approx(100 * COSTS.line + 3 * COSTS.first)


def test_the_slower_of_memory_and_sms_decides():
    nbytes = H200.bandwidth * 1e-3
    alone = COSTS.memory * 1e-3
    assert memory_and(0, nbytes, H200) == pytest.approx(COSTS.launch + alone)
    both = memory_and(alone * H200.clock, nbytes, H200)
    assert both == pytest.approx(COSTS.launch + 2**0.25 * alone)
    assert slower(0.0, 0.0) == 0.0


def test_written_lines_must_be_written_back_up_to_half_of_l2():
    for nbytes in (H200.l2 / 4, H200.l2 * 4):
        clean, dirty = (memory_and(0, nbytes, H200, written=w) for w in (False, True))
        back = COSTS.written * min(nbytes, H200.l2 / 2) / H200.bandwidth
        assert dirty - clean == pytest.approx(COSTS.memory * back)
    assert seconds(ONE, H200, written=True) == seconds(ONE, H200)


@pytest.mark.parametrize(("warps", "share"), [(1, 4), (2, 2), (4, 1), (6, 4 / 3), (8, 1)])
def test_warps_keep_to_their_schedulers(warps, share):
    """A single block: what all four schedulers would do takes longer on some of them."""
    of = replace(ONE, threads=32 * warps, issued=1e6)
    whole = replace(of, threads=128)
    waits = sm_clocks(replace(of, issued=0.0), H200)
    work = sm_clocks(whole, H200) - waits
    assert sm_clocks(of, H200) - waits == pytest.approx(share * work, rel=1e-3)


def test_multiply_adds_of_lanes_are_not_counted_twice():
    """They are issued: in fp32 their own time is that of their instructions."""
    one = replace(ONE, dtype="float32", products=32.0 * 1000)
    assert busy_clocks(replace(one, issued=1000.0), H200) == busy_clocks(one, H200)
    assert busy_clocks(replace(one, issued=2000.0), H200) > busy_clocks(one, H200)


def test_the_heaviest_sm_has_more_than_the_mean():
    """Of one block each the longest decides, of many nearly the mean."""
    busy = replace(ONE, issued=1e6, steps=10, longest=20)
    one = sm_clocks(busy, H200)
    assert one == pytest.approx(sm_clocks(replace(busy, steps=20), H200), rel=0.02)
    many = replace(busy, blocks=16 * H200.sms)
    factor = sm_clocks(many, H200) / sm_clocks(replace(many, longest=10), H200)
    assert factor == pytest.approx(1.25, rel=0.05)


def test_each_block_of_an_sm_costs_something():
    added = [
        sm_clocks(replace(ONE, blocks=blocks), MEASURED)
        - sm_clocks(replace(ONE, blocks=blocks), H200)
        for blocks in (132, 1320)
    ]
    assert added == pytest.approx([MEASURED.costs.block, 10 * MEASURED.costs.block])
