"""mbarriers, numbered barriers and bulk copies: right ones, and each with a line that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import kernel, run
from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.executor import Memory, execute

THREADS = 64
SHARED = ".shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar[2];"

COPY = """
  mov.u32 %r20, tile; mov.u32 %r21, bar;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra MADE;
  mbarrier.init.shared::cta.b64 [%r21], 1;
  fence.mbarrier_init.release.cluster;
MADE:
  bar.sync 0;
  @%p1 bra ASKED;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%d0], 256, [%r21];
ASKED:
AGAIN:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r21], 0;
  @!%p2 bra AGAIN;
  shl.b32 %r1, %r0, 2;
  xor.b32 %r2, %r1, 128;
  add.u32 %r3, %r20, %r2;
  ld.shared.u32 %r4, [%r3];
  mad.wide.u32 %d9, %r0, 4, %d1;
  st.global.u32 [%d9], %r4;
"""


def kinds(body, arrays, threads=THREADS, shared=SHARED):
    return {one.kind for one in run(body.replace("; ", ";\n"), arrays, threads, shared).findings}


def copied(body):
    data, out = np.arange(THREADS, dtype="u4"), np.zeros(THREADS, "u4")
    found = kinds(body, [data, out])
    return found, np.array_equal(out, data ^ 32)


def test_a_copy_arrives_with_its_bytes():
    assert copied(COPY) == (set(), True)


def test_bytes_may_come_in_several_copies_and_before_they_are_expected():
    one = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    halves = (
        f"{one}[%r20], [%d0], 128, [%r21];\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 256;\n"
        f"{one}[%r20+128], [%d0+128], 128, [%r21];"
    )
    lines = [line for line in COPY.split("\n") if "expect_tx" not in line]
    body = "\n".join(halves if line.strip().startswith(one.strip()) else line for line in lines)
    assert copied(body) == (set(), True)


def changed(old, new):
    assert old in COPY
    return copied(COPY.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("@!%p2 bra AGAIN;", "", "unfinished copy"),
        ("[%r21], 0;", "[%r21], 1;", "unfinished copy"),
        ("@%p1 bra ASKED;", "setp.lt.u32 %p3, %r0, 4; @!%p3 bra ASKED;", "mbarrier"),
        ("_, [%r21], 256;", "_, [%r21], 240;", "byte count"),
        ("_, [%r21], 256;", "_, [%r21], 272;", "byte count"),
        ("_, [%r21], 256;", "_, [%r21], 1048576;", "byte count"),
        ("[%r21], 1;", "[%r21], 2;", "deadlock"),
        ("[%r21], 1;", "[%r21], 0;", "mbarrier"),
        ("bar.sync 0;", "", "race"),
        ("fence.mbarrier_init.release.cluster;", "", "proxy fence"),
        ("[%r20], [%d0], 256", "[%r20], [%d0+8], 240", "misaligned"),
        ("[%r20], [%d0]", "[%r20+8], [%d0]", "misaligned"),
        ("[%r20], [%d0]", "[%r20], [%d0+16]", "out of bounds"),
        ("[%r20], [%d0]", "[%r20+512], [%d0]", "out of bounds"),
        ("[%d0], 256, [%r21]", "[%d0], 256, [%r21+8]", "mbarrier"),
        ("MADE:", "MADE: @%p1 bra ON; mbarrier.init.shared::cta.b64 [%r21], 1;\nON:", "mbarrier"),
        ("mbarrier.arrive.exp", "st.shared.u32 [%r20], %r0;\nmbarrier.arrive.exp", "proxy fence"),
        ("ASKED:", "ASKED: ld.shared.u32 %r4, [%r20];", "unfinished copy"),
    ],
)
def test_a_wrong_line_is_found(old, new, kind):
    found, right = changed(old, new)
    assert kind in found
    if kind in ("deadlock", "byte count") or old in ("@!%p2 bra AGAIN;", "[%r21], 0;"):
        assert not right  # data arrive no earlier than a wait allows


def test_a_state_names_the_phase_of_an_arrival():
    body = """
  mov.u32 %r21, bar;
  mbarrier.init.shared.b64 [%r21], 2;
  mbarrier.arrive.shared.b64 %d5, [%r21];
  mbarrier.test_wait.shared.b64 %p1, [%r21], %d5;
  mbarrier.arrive.shared.b64 %d6, [%r21], 1;
  mbarrier.test_wait.shared.b64 %p2, [%r21], %d6;
  mbarrier.arrive_drop.shared.b64 _, [%r21];
  mbarrier.arrive.shared.b64 %d6, [%r21];
  mbarrier.arrive.shared.b64 %d6, [%r21];
  mbarrier.test_wait.parity.shared.b64 %p3, [%r21], 0;
  selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 1, 0, %p3;
  st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r1};
  mbarrier.inval.shared.b64 [%r21];
"""
    out = np.full(4, 9, "u4")
    assert kinds(body, [out], threads=1) == set()
    assert out.tolist() == [0, 1, 1, 0]  # three phases are over, the last has parity 0


RING = """
  mov.u32 %r20, tile; mov.u32 %r21, bar;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra MADE;
  mbarrier.init.shared.b64 [%r21], 32;
  mbarrier.init.shared.b64 [%r21+8], 32;
MADE:
  bar.sync 0;
  mov.u32 %r10, 0;
  and.b32 %r11, %r0, 31;
  shl.b32 %r12, %r11, 2;
  add.u32 %r13, %r20, %r12;
  xor.b32 %r14, %r12, 4;
  add.u32 %r14, %r20, %r14;
  setp.ge.u32 %p1, %r0, 32;
  @%p1 bra READS;
WRITES:
  and.b32 %r15, %r10, 1;
  xor.b32 %r16, %r15, 1;
EMPTY:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r21+8], %r16;
  @!%p2 bra EMPTY;
  add.u32 %r17, %r10, %r11;
  st.shared.u32 [%r13], %r17;
  mbarrier.arrive.shared.b64 _, [%r21];
  add.u32 %r10, %r10, 1;
  setp.lt.u32 %p3, %r10, 5;
  @%p3 bra WRITES;
  ret;
READS:
  and.b32 %r15, %r10, 1;
FULL:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r21], %r15;
  @!%p2 bra FULL;
  ld.shared.u32 %r17, [%r14];
  mbarrier.arrive.shared.b64 _, [%r21+8];
  mad.lo.u32 %r18, %r10, 32, %r11;
  mad.wide.u32 %d9, %r18, 4, %d0;
  st.global.u32 [%d9], %r17;
  add.u32 %r10, %r10, 1;
  setp.lt.u32 %p3, %r10, 5;
  @%p3 bra READS;
"""


def ring(body):
    out = np.zeros((5, 32), "u4")
    found = kinds(body, [out])
    wanted = np.arange(5)[:, None] + (np.arange(32) ^ 1)
    return found, np.array_equal(out, wanted)


def test_two_warps_take_turns():
    assert ring(RING) == (set(), True)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("@!%p2 bra EMPTY;", "", "deadlock"),
        ("@!%p2 bra FULL;", "", "race"),
        ("xor.b32 %r16, %r15, 1;", "mov.b32 %r16, %r15;", "deadlock"),
        ("mbarrier.arrive.shared.b64 _, [%r21+8];", "", "deadlock"),
        ("b64 [%r21], 32;", "b64 [%r21], 31;", "race"),
        (
            "mbarrier.arrive.shared.b64 _, [%r21];",
            "setp.eq.u32 %p4, %r11, 31;\n@%p4 mbarrier.arrive.shared.b64 _, [%r21], 32;",
            "race",
        ),
        ("ld.shared.u32 %r17, [%r14];\n  mbarrier.arrive.shared.b64 _, [%r21+8];",
         "mbarrier.arrive.shared.b64 _, [%r21+8];\n  ld.shared.u32 %r17, [%r14];", "race"),
    ],
)  # fmt: skip
def test_turns_that_are_not_taken(old, new, kind):
    assert old in RING
    found, _ = ring(RING.replace(old, new, 1))
    assert kind in found


NAMED = """
  mov.u32 %r20, tile;
  and.b32 %r10, %r0, 63;
  shr.u32 %r11, %r0, 6;
  shl.b32 %r12, %r0, 2; add.u32 %r12, %r20, %r12;
  st.shared.u32 [%r12], %r0;
  bar.sync %r11, 64;
  xor.b32 %r13, %r0, 32; shl.b32 %r14, %r13, 2; add.u32 %r14, %r20, %r14;
  ld.shared.u32 %r15, [%r14];
  mad.wide.u32 %d9, %r0, 4, %d0;
  st.global.u32 [%d9], %r15;
"""


def test_numbered_barriers():
    out = np.zeros(128, "u4")
    assert kinds(NAMED, [out], 128) == set()
    assert np.array_equal(out, np.arange(128) ^ 32)
    for old, new, kind in (
        ("bar.sync %r11, 64;", "", "race"),
        ("bar.sync %r11, 64;", "bar.sync %r11, 32;", "race"),
        ("bar.sync %r11, 64;", "bar.sync %r11, 96;", "deadlock"),
        ("bar.sync %r11, 64;", "bar.arrive %r11, 64;", "race"),
        ("xor.b32 %r13, %r0, 32;", "xor.b32 %r13, %r0, 64;", "race"),
    ):
        assert kind in kinds(NAMED.replace(old, new), [np.zeros(128, "u4")], 128), new


BACK = """
  mov.u32 %r20, tile;
  shl.b32 %r1, %r0, 2; add.u32 %r2, %r20, %r1;
  mad.lo.u32 %r3, %r0, 3, 1;
  st.shared.u32 [%r2], %r3;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra DONE;
  cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r20], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  st.shared.u32 [%r20], 77;
DONE:
"""


def test_copies_back_to_global_memory():
    out = np.zeros(THREADS, "u4")
    assert kinds(BACK, [out]) == set()
    assert np.array_equal(out, np.arange(THREADS) * 3 + 1)
    for old, new, kind in (
        ("fence.proxy.async.shared::cta;", "", "proxy fence"),
        ("bar.sync 0;", "", "race"),
        ("cp.async.bulk.wait_group.read 0;", "", "open group"),
        ("cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 1;", "open group"),
        ("cp.async.bulk.commit_group;", "", "unfinished copy"),
        ("[%d0], [%r20], 256", "[%d0], [%r20], 272", "out of bounds"),
    ):
        assert kind in kinds(BACK.replace(old, new), [np.zeros(THREADS, "u4")]), new


SUMS = {
    "add.u32": ("u4", np.add),
    "add.s32": ("i4", np.add),
    "add.f32": ("f4", np.add),
    "add.noftz.f16": ("f2", np.add),
    "min.s32": ("i4", np.minimum),
    "max.u64": ("u8", np.maximum),
    "xor.b32": ("u4", np.bitwise_xor),
}


@pytest.mark.parametrize("operation", SUMS)
def test_copies_that_reduce(operation):
    dtype, function = SUMS[operation]
    body = COPY[: COPY.index("  shl.b32 %r1")]
    body += f"""
  @%p1 bra DONE;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%d1], [%r20], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
"""
    rng = np.random.default_rng(0)
    low = 0 if dtype[0] == "u" else -9
    x, y = rng.integers(low, 10, (2, 256 // np.dtype(dtype).itemsize)).astype(dtype)
    wanted = function(y, x)
    assert kinds(body, [x, y]) == set()
    assert np.array_equal(y, wanted)


BOX = COPY.replace("256;", "2048;", 1).replace(
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%d0], 256, [%r21]",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[%r20], [%d10, {%r30, %r31}], [%r21]",
)


@pytest.mark.parametrize(("swizzle", "width"), [(0, 64), (1, 16), (2, 32), (3, 64)])
@pytest.mark.parametrize("corner", [(0, 0), (3, 6), (-2, -5), (60, 20)])
def test_boxes_of_a_tensor(swizzle, width, corner):
    """What lies outside is zero; the pattern of a swizzle permutes 16 bytes of each row."""
    tensor = np.arange(1, 21 * 72 + 1, dtype="u2").reshape(21, 72)
    rows = 2048 // (2 * width)
    body = BOX[: BOX.index("  shl.b32 %r1")] + "mov.u32 %r5, 0;\nNEXT:\n"
    body += "mad.lo.u32 %r6, %r5, 256, 0;\nshl.b32 %r1, %r0, 2; add.u32 %r6, %r6, %r1;\n"
    body += "add.u32 %r7, %r20, %r6; ld.shared.u32 %r4, [%r7]; cvt.u64.u32 %d8, %r6;\n"
    body += "add.s64 %d9, %d1, %d8; st.global.u32 [%d9], %r4; add.u32 %r5, %r5, 1;\n"
    body += "setp.lt.u32 %p3, %r5, 8; @%p3 bra NEXT;\n"
    head = f"mov.u64 %d10, a0; cvta.param.u64 %d10, %d10; mov.s32 %r30, {corner[1]}; "
    head += f"mov.s32 %r31, {corner[0]};\n"
    shared = SHARED.replace("tile[512]", "tile[2048]").replace("128", "1024", 1)
    text = kernel((head + body).replace("; ", ";\n"), 2, shared.replace("; ", ";\n"))
    text = text.replace(".param .u64 a0", ".param .align 64 .b8 a0[128]")
    text = text.replace("  ld.param.u64 %d0, [a0];\n", "")
    out = np.zeros((rows, width // 8, 8), "u2")
    with Memory() as memory:
        boxes = memory.tensor_map(tensor, (rows, width), swizzle)
        report = execute(text, "k", (1, 1, 1), (THREADS, 1, 1), [boxes, out], memory=memory)
    assert report.findings == ()
    row, column = (np.arange(n) + at for n, at in zip((rows, width), corner, strict=True))
    inside = ((row >= 0) & (row < 21))[:, None] & ((column >= 0) & (column < 72))
    wanted = np.where(inside, tensor[row.clip(0, 20)][:, column.clip(0, 71)], 0)
    # 16 bytes `c` of line `r` of 128 bytes lie at `c ^ (r % 2, 4 or 8)`.
    line = np.arange(2048 // 16) // 8 % (1 << swizzle)
    place = np.arange(2048 // 16) ^ line
    assert np.array_equal(out.reshape(-1, 8)[place], wanted.reshape(-1, 8))


@pytest.mark.parametrize(
    ("box", "swizzle", "problem"),
    [
        ((4, 12), 0, "multiple of 16 bytes"),
        ((300, 8), 0, "1 to 256 elements"),
        ((4, 64), 2, "as wide as its swizzle"),
        ((4, 8), 4, "swizzles are"),
    ],
)
def test_maps_that_the_isa_forbids(box, swizzle, problem):
    with Memory() as memory, pytest.raises(EmulatorError, match=problem):
        memory.tensor_map(np.zeros((8, 64), "u2"), box, swizzle)
