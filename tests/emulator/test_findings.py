"""Findings that need a kernel of their own: each with the line that is wrong, and without."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import kernel, run
from tests.emulator.test_mbarriers import COPY, SHARED
from tvm_sparse_emulator.executor import execute, library


def found(body, arrays=(), threads=32, shared=""):
    report = run(body.replace("; ", ";\n"), list(arrays), threads, shared)
    return {(one.kind, one.detail) for one in report.findings}


NUMBERED = "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 64; bra B;\nA: bar.sync 1, {};\nB:"
MINE = ".local .align 4 .b8 own[16];"
LOCAL = "mov.u64 %d9, own; st.local.u32 [%d9{}], %r0;"
SHUFFLE = "setp.lt.u32 %p1, %r0, 8; @%p1 shfl.sync.idx.b32 %r1, %r0, {}, 31, 0xff;"
STOP = "setp.gt.u32 %p1, %r0, {}; @%p1 trap;"


@pytest.mark.parametrize(
    ("body", "right", "wrong", "wanted"),
    [
        (NUMBERED, 64, 96, ("barrier divergence", "others expect 96 threads")),
        (LOCAL, "+12", "+16", ("out of bounds", "4 bytes")),
        (LOCAL, "+12", "+6", ("misaligned", "4 bytes must be aligned to as many")),
        (SHUFFLE, 7, 8, ("warp divergence", "it reads a lane that is not there")),
        (STOP, 63, 62, ("trap", "the kernel stops itself")),
    ],
)
def test_a_wrong_number_is_found(body, right, wrong, wanted):
    assert found(body.format(right), threads=64, shared=MINE) == set()
    assert found(body.format(wrong), threads=64, shared=MINE) == {wanted}


SPARSE = """
  mov.u32 %r9, {places};
  mma.sp{ordered}.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}},
    {{%r1, %r2, %r3, %r4}}, {{%r5, %r6, %r7, %r8}}, {{%f4, %f5, %f6, %f7}}, %r9, 0;
"""


@pytest.mark.parametrize(
    ("ordered", "places", "detail"),
    [
        ("", "0x44444444", None),
        ("", "0x11111111", None),  # the second column first
        ("", "0x55555555", "columns of a quad must differ"),
        ("::ordered_metadata", "0x44444444", None),
        ("::ordered_metadata", "0x11111111", "columns of a quad must ascend"),
        ("::ordered_metadata", "0x55555555", "columns of a quad must ascend"),
    ],
)
def test_places_of_kept_columns(ordered, places, detail):
    wanted = {("metadata", detail)} if detail else set()
    assert found(SPARSE.format(ordered=ordered, places=places)) == wanted


WAIT = "AGAIN:\n  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r21], 0;\n  @!%p2 bra AGAIN;\n"
BEGIN = COPY.split(WAIT)[0]
DROP = "bar.sync 0;\n@%p1 bra END;\nmbarrier.inval.shared.b64 [%r21];\nEND:"
ARRAYS = [np.arange(64, dtype="u4"), np.zeros(64, "u4")]


def test_a_mbarrier_that_bytes_are_on_the_way_to():
    assert found(BEGIN + WAIT + DROP, ARRAYS, 64, SHARED) == set()
    wanted = {("unfinished copy", "its bytes are still expected")}
    assert found(BEGIN + DROP, ARRAYS, 64, SHARED) == wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (BEGIN + DROP + WAIT, ("mbarrier", "no mbarrier.init made one here")),
        ("mov.u32 %r21, 1024;\n" + WAIT, ("out of bounds", "8 bytes")),
    ],
)
def test_who_waits_for_no_mbarrier_does_not_wait_for_ever(body, wanted):
    assert wanted in found(body, ARRAYS, 64, SHARED)


READS = {
    "a load": "ld.global.u32 %r1, [%d0+252];",
    "an atomic": "red.global.add.u32 [%d0+252], 1;",
    "a bulk copy": COPY,
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("written", [256, 252])
def test_global_memory_that_nobody_wrote(read, written):
    """It is what a driver gives; arrays of NumPy count as written."""
    place = library().ts_ptx_allocate(256)
    try:
        library().ts_ptx_wrote(place, written)
        text = kernel(READS[read].replace("; ", ";\n"), 2, SHARED)
        block = (64 if read == "a bulk copy" else 1, 1, 1)
        report = execute(text, "k", (1, 1, 1), block, [place, np.zeros(64, "u4")])
    finally:
        library().ts_ptx_free(place)
    kinds = {one.kind for one in report.findings}
    assert kinds == (set() if written == 256 else {"uninitialised"})
