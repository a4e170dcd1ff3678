"""Each kind of error is found where it is, and nothing in kernels that are right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import run

SHARED = ".shared .align 16 .b8 tile[256];"


def found(body, arrays, threads=64, shared=SHARED, dynamic=0):
    """The kinds of errors, with the instruction they are reported at."""
    report = run(body.replace("; ", ";\n"), arrays, threads, shared, dynamic)
    return [(one.kind, one.instruction.split()[0]) for one in report.findings]


def numbers(count=64):
    return np.arange(count, dtype="u4")


STORE = "shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1; st.shared.u32 [%r3], %r0;"
SWAP = """
  xor.b32 %r4, %r0, 63;
  shl.b32 %r4, %r4, 2;
  add.u32 %r4, %r4, %r2;
  ld.shared.u32 %r5, [%r4];
  mad.wide.u32 %d9, %r0, 4, %d0;
  st.global.u32 [%d9], %r5;
"""


def test_a_barrier_between_threads():
    data = numbers()
    assert found(f"{STORE}\nbar.sync 0;\n{SWAP}", [data]) == []
    assert data.tolist() == list(range(63, -1, -1))


def test_no_barrier_is_a_race():
    assert ("race", "ld.shared.u32") in found(STORE + SWAP, [numbers()])


def test_a_race_names_both_threads_and_the_place():
    report = run(STORE + SWAP, [numbers()], 64, SHARED)
    # Thread 32 is the first of the second warp, which runs when the first has stored everything.
    race = next(one for one in report.findings if one.kind == "race")
    assert race.kernel == "k"
    assert race.block == (0, 0, 0)
    assert race.thread[0] >= 32
    assert race.buffer.startswith("shared memory tile, byte ")
    assert f"thread {63 - race.thread[0]} at line" in race.detail
    assert str(race).startswith("race in k, line ")


def test_writes_after_reads_race():
    body = f"{STORE}\nbar.sync 0;\n{SWAP}\nst.shared.u32 [%r3], %r5;"
    assert ("race", "st.shared.u32") in found(body, [numbers()])
    assert found(body.replace("[%d9], %r5;", "[%d9], %r5; bar.sync 0;"), [numbers()]) == []


WARP = STORE.replace("%r0;", "%r0;", 1) + "{sync}" + SWAP.replace("63", "31")


def test_lanes_of_a_warp_need_a_barrier_too():
    assert found(WARP.format(sync=""), [numbers()], 32) == [("race", "ld.shared.u32")]
    assert found(WARP.format(sync="bar.warp.sync 0xffffffff;"), [numbers()], 32) == []


def test_threads_may_share_a_word_in_different_bytes():
    body = """
  shl.b32 %r1, %r0, 1; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1;
  mov.u16 %h1, 7; st.shared.u16 [%r3], %h1;
"""
    assert found(body, [numbers()]) == []


def test_shared_memory_that_nobody_wrote():
    body = "mov.u32 %r2, tile;" + SWAP
    assert found(body, [numbers()]) == [("uninitialised", "ld.shared.u32")]


@pytest.mark.parametrize(
    ("offset", "kind"), [(256, "out of bounds"), (2, "misaligned"), (-4, "out of bounds")]
)
def test_shared_addresses(offset, kind):
    body = f"mov.u32 %r2, tile; st.shared.u32 [%r2+{offset}], %r0;"
    assert found(body, [numbers()], threads=1) == [(kind, "st.shared.u32")]


def test_dynamic_shared_memory_has_a_size():
    body = "mov.u32 %r2, tile; st.shared.u32 [%r2+{}], %r0;"
    assert found(body.format(316), [numbers()], 1, dynamic=64) == []
    wrong = [("out of bounds", "st.shared.u32")]
    assert found(body.format(320), [numbers()], 1, dynamic=64) == wrong


@pytest.mark.parametrize(
    ("offset", "kind"), [(256, "out of bounds"), (2, "misaligned"), (-4, "out of bounds")]
)
@pytest.mark.parametrize("access", ["ld.global.u32 %r9, [{}];", "st.global.u32 [{}], %r0;"])
def test_global_addresses(access, offset, kind):
    data = numbers()
    name = access.split()[0]
    assert found(access.format(f"%d0+{offset}"), [data], threads=1) == [(kind, name)]
    assert np.array_equal(data, numbers())


def test_a_global_error_names_the_buffer():
    (one,) = run("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+248];", [numbers()], 1).findings
    assert "(256 bytes), byte 248" in one.buffer
    assert one.kind == "misaligned" or one.kind == "out of bounds"


COPY = """
  shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1;
  cvt.u64.u32 %d8, %r1; add.s64 %d9, %d0, %d8;
  cp.async.cg.shared.global [%r3], [%d9], 16;
  cp.async.commit_group;
  {wait}
  {barrier}
  xor.b32 %r4, %r1, {other};
  add.u32 %r4, %r4, %r2;
  ld.shared.u32 %r5, [%r4];
  add.s64 %d7, %d1, %d8;
  st.global.u32 [%d7], %r5;
"""


@pytest.mark.parametrize(
    ("wait", "barrier", "other", "kinds"),
    [
        ("cp.async.wait_group 0;", "bar.sync 0;", 240, set()),
        ("cp.async.wait_all;", "", 0, set()),
        ("cp.async.wait_group 0;", "", 240, {"race"}),
        ("cp.async.wait_group 1;", "bar.sync 0;", 240, {"unfinished copy"}),
        ("", "bar.sync 0;", 240, {"unfinished copy"}),
        ("", "", 0, {"unfinished copy"}),
    ],
)
def test_asynchronous_copies(wait, barrier, other, kinds):
    data, out = numbers(), np.zeros(64, "u4")
    body = COPY.format(wait=wait, barrier=barrier, other=other)
    assert {kind for kind, _ in found(body, [data, out], threads=16)} == kinds
    right = np.array_equal(out[::4], data[::4] ^ (other // 4))
    assert right == (kinds in (set(), {"race"}))  # a race may end well


def test_data_arrives_no_earlier_than_a_wait_allows():
    body = """
  mov.u32 %r2, tile; mov.u32 %r9, 77; st.shared.v4.u32 [%r2], {%r9, %r9, %r9, %r9};
  st.shared.v4.u32 [%r2+16], {%r9, %r9, %r9, %r9};
  cp.async.cg.shared.global [%r2], [%d0], 16;
  cp.async.commit_group;
  cp.async.cg.shared.global [%r2+16], [%d0+16], 16;
  cp.async.commit_group;
  cp.async.wait_group 1;
  ld.shared.u32 %r3, [%r2+4];
  ld.shared.u32 %r4, [%r2+20];
  st.global.v2.u32 [%d1], {%r3, %r4};
"""
    out = np.zeros(2, "u4")
    assert found(body, [numbers(), out], threads=1) == [("unfinished copy", "ld.shared.u32")]
    assert out.tolist() == [1, 77]


def test_copies_of_nothing_are_zeros():
    body = """
  mov.u32 %r2, tile; mov.u32 %r9, 0; mov.u64 %d9, 0;
  cp.async.ca.shared.global [%r2], [%d9], 16, %r9;
  cp.async.wait_all;
  ld.shared.u32 %r3, [%r2+4];
  st.global.u32 [%d0], %r3;
"""
    data = numbers()
    assert found(body, [data], threads=1) == []
    assert data[0] == 0


def test_a_copy_overwrites_what_others_still_read():
    body = f"{STORE}\nbar.sync 0;\n{SWAP}\ncp.async.ca.shared.global [%r3], [%d9], 4;"
    assert ("race", "cp.async.ca.shared.global") in found(body, [numbers()])


def test_barriers_that_not_all_threads_reach():
    body = "setp.lt.u32 %p1, %r0, {};\n@%p1 bra $there;\nbar.sync 0;\n$there:"
    assert found(body.format(5), [numbers()]) == [("barrier divergence", "bar.sync")]
    assert found(body.format(32), [numbers()]) == [("barrier divergence", "bar.sync")]
    assert found(body.format(64), [numbers()]) == []
    two = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra $a;\nbar.sync 0;\nbra $b;\n$a:\nbar.sync 0;\n$b:"
    assert found(two, [numbers()]) == [("barrier divergence", "bar.sync")]


def test_lanes_that_a_mask_names_must_be_there():
    body = "setp.lt.u32 %p1, %r0, 8;\n@%p1 shfl.sync.idx.b32 %r1, %r0, 0, 31, {};"
    assert found(body.format("0xffffffff"), [numbers()], 32)[0][0] == "warp divergence"
    assert found(body.format("0xff"), [numbers()], 32) == []


def test_matrices_need_a_whole_warp():
    body = (
        "mov.u32 %r2, tile; st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];"
    )
    kinds = {kind for kind, _ in found(body, [numbers()], 16)}
    assert "warp divergence" in kinds


def test_errors_are_counted_once_an_instruction():
    report = run("ld.global.u32 %r1, [%d0+4096];", [numbers()], threads=64)
    (one,) = report.findings
    assert one.times == 64
    assert one.thread == (0, 0, 0)
