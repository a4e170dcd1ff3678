"""What lanes of a warp find together, and what a thread knows of itself."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import apply, run

MEMBERS = 0x0FF0FF0F
"""Lanes that take part; the others do not."""

STORE = "mad.wide.u32 %d9, %r0, 4, %d{}; st.global.u32 [%d9], {};"
LOAD = "mad.wide.u32 %d9, %r0, 4, %d0; ld.global.u32 %r5, [%d9];"
SOME = f"""
  mov.u32 %r2, 1; shl.b32 %r2, %r2, %r0; and.b32 %r2, %r2, {MEMBERS};
  setp.eq.u32 %p1, %r2, 0; @%p1 bra $end;"""


def lanes():
    return [lane for lane in range(32) if MEMBERS >> lane & 1]


@pytest.mark.parametrize(
    ("instruction", "dtype", "reduce"),
    [
        ("add.u32", "u4", np.add.reduce),
        ("add.s32", "i4", np.add.reduce),
        ("min.u32", "u4", np.min),
        ("min.s32", "i4", np.min),
        ("max.u32", "u4", np.max),
        ("max.s32", "i4", np.max),
        ("and.b32", "u4", np.bitwise_and.reduce),
        ("or.b32", "u4", np.bitwise_or.reduce),
        ("xor.b32", "u4", np.bitwise_xor.reduce),
    ],
)
def test_values_are_reduced(instruction, dtype, reduce):
    x = np.random.default_rng(0).integers(0, 2**32, 32, dtype="u4").view(dtype)
    y = np.zeros(32, dtype)
    body = (
        f"{LOAD}{SOME} redux.sync.{instruction} %r6, %r5, {MEMBERS};{STORE.format(1, '%r6')}$end:"
    )
    assert not run(body, [x.view("u4"), y.view("u4")]).findings
    wanted = reduce(x[lanes()]).astype(dtype)
    assert [y[lane] for lane in lanes()] == [wanted] * len(lanes())
    assert not y[[lane for lane in range(32) if lane not in lanes()]].any()


def test_lanes_with_the_same_value():
    x, y = np.random.default_rng(0).integers(0, 4, 32, dtype="u4"), np.zeros(32, "u4")
    body = f"{LOAD}{SOME} match.any.sync.b32 %r6, %r5, {MEMBERS};{STORE.format(1, '%r6')}$end:"
    assert not run(body, [x, y]).findings
    for lane in lanes():
        assert y[lane] == sum(1 << other for other in lanes() if x[other] == x[lane])


@pytest.mark.parametrize("same", [True, False])
def test_whether_all_have_the_same_value(same):
    x, y, z = np.full(32, 9, "u4"), np.zeros(32, "u4"), np.zeros(32, "u4")
    x[8] = 9 if same else 7
    told = f"selp.u32 %r7, 1, 0, %p2; {STORE.format(1, '%r6')} {STORE.format(2, '%r7')}"
    wide = "cvt.u64.u32 %d12, %r5;"
    body = f"{LOAD}{SOME}{wide} match.all.sync.b64 %r6|%p2, %d12, {MEMBERS}; {told}$end:"
    assert not run(body, [x, y, z]).findings
    assert [y[lane] for lane in lanes()] == [MEMBERS if same else 0] * len(lanes())
    assert [z[lane] for lane in lanes()] == [same] * len(lanes())


@pytest.mark.parametrize("instruction", ["redux.sync.add.u32", "match.any.sync.b32"])
def test_lanes_that_a_mask_names_must_be_there(instruction):
    body = f"{SOME} {instruction} %r6, %r0, 0xffffffff;$end:"
    assert {one.kind for one in run(body, []).findings} == {"warp divergence"}


SPECIAL = {
    "%lanemask_eq": lambda lane: 1 << lane,
    "%lanemask_lt": lambda lane: (1 << lane) - 1,
    "%lanemask_le": lambda lane: (2 << lane) - 1,
    "%lanemask_gt": lambda lane: 0xFFFFFFFF & -(2 << lane),
    "%lanemask_ge": lambda lane: 0xFFFFFFFF & -(1 << lane),
    "%laneid": lambda lane: lane,
    "%nsmid": lambda lane: 1,
    "%dynamic_smem_size": lambda lane: 48,
}


@pytest.mark.parametrize("name", SPECIAL)
def test_what_a_thread_knows(name):
    y = np.zeros(64, "u4")
    run(f"mov.u32 %r5, {name}; {STORE.format(0, '%r5')}", [y], 64, dynamic=48)
    assert y.tolist() == [SPECIAL[name](thread % 32) for thread in range(64)]


def test_clocks_go_on():
    body = "mov.u32 %r5, %clock; nanosleep.u32 10; mov.u32 %r6, %clock; sub.u32 %r5, %r6, %r5;"
    y = np.zeros(32, "u4")
    run(body + STORE.format(0, "%r5"), [y])
    assert (y > 0).all()
    wide = apply("mov.u64 {d}, %clock64", [np.zeros(32, "u8")], np.dtype("u8"))
    assert (wide > 0).all()
