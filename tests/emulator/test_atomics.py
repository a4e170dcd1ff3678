"""Atomics: what they leave and return, what races with them, and warps that wait by them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.snippets import needs_nvrtc, run
from tvm_sparse_emulator import compile_ptx, execute
from tvm_sparse_emulator.errors import EmulatorError

THREADS = 64
SHARED = ".shared .align 16 .b8 tile[64];"
TYPES = {"u32": "u4", "s32": "i4", "b32": "u4", "u64": "u8", "s64": "i8", "b64": "u8"}
TYPES |= {"f32": "f4", "f64": "f8"}
SIGNED, BITS = ("u32", "s32", "u64", "s64"), ("b32", "b64")
MEANINGS = {
    "add": (("u32", "s32", "u64", "f32", "f64"), lambda old, b: old + b),
    "min": (SIGNED, min),
    "max": (SIGNED, max),
    "and": (BITS, lambda old, b: old & b),
    "or": (BITS, lambda old, b: old | b),
    "xor": (BITS, lambda old, b: old ^ b),
    "inc": (("u32",), lambda old, b: 0 if old >= b else old + 1),
    "dec": (("u32",), lambda old, b: b if old == 0 or old > b else old - 1),
    "exch": (BITS, lambda old, b: b),
}
EACH = [(name, kind) for name, (kinds, _) in MEANINGS.items() for kind in kinds]


def registers(kind):
    return {"f32": "%f", "f64": "%w"}.get(kind, "%d" if kind.endswith("64") else "%r")


def program(space, instruction, kind):
    """Threads apply ``instruction`` of ``b`` to the first element of array 0; old ones to 2."""
    r, size = registers(kind), np.dtype(TYPES[kind]).itemsize
    bits = f"b{8 * size}"
    into = f"""
  ld.global.{bits} {r}3, [%d0]; mov.u32 %r20, tile;
  setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.{bits} [%r20], {r}3; bar.sync 0;"""
    back = f"bar.sync 0; @%p1 ld.shared.{bits} {r}3, [%r20]; @%p1 st.global.{bits} [%d0], {r}3;"
    place = {"global": "%d0", "shared": "%r20", "": "%d0"}[space]
    return f"""
  {into if space == "shared" else ""}
  mad.wide.u32 %d20, %r0, {size}, %d1; ld.global.{bits} {r}5, [%d20];
  {instruction.format(r=r, place=place)}
  {back if space == "shared" else ""}
"""


def fold(meaning, first, operands):
    """The value in memory at the end, and those that threads saw, the lowest lane first."""
    seen, value = [], first
    for b in operands:
        seen.append(value)
        value = first.dtype.type(meaning(value, b))
    return value, seen


def operands(kind, seed=0):
    dtype = np.dtype(TYPES[kind])
    low = -9 if dtype.kind in "if" else 0
    return np.random.default_rng(seed).integers(low, 30, THREADS).astype(dtype)


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize(("name", "kind"), EACH)
def test_old_values_and_what_is_left(name, kind, space):
    dtype, r = np.dtype(TYPES[kind]), registers(kind)
    dotted = f".{space}" if space else ""
    store = f"mad.wide.u32 %d21, %r0, {dtype.itemsize}, %d2; st.global.b{8 * dtype.itemsize}"
    body = f"atom{dotted}.{name}.{kind} {r}7, [{{place}}], {r}5; {store} [%d21], {r}7;"
    value, b, old = np.array([17], dtype), operands(kind), np.zeros(THREADS, dtype)
    left, seen = fold(MEANINGS[name][1], value[0], b)
    report = run(program(space, body, kind), [value, b, old], THREADS, SHARED)
    assert not report.findings
    assert value[0] == left
    np.testing.assert_array_equal(old, seen)


@pytest.mark.parametrize(("name", "kind"), [one for one in EACH if one[0] != "exch"])
def test_nothing_is_returned(name, kind):
    value, b = np.array([17], TYPES[kind]), operands(kind)
    left, _ = fold(MEANINGS[name][1], value[0], b)
    body = f"red.relaxed.gpu.global.{name}.{kind} [{{place}}], {{r}}5;"
    assert not run(program("global", body, kind), [value, b], THREADS).findings
    assert value[0] == left


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("pairs", [False, True])
def test_sums_of_halves_round_each_time(kind, dtype, pairs):
    made = np.random.default_rng(0).standard_normal((THREADS, 2)).astype(dtype)
    value = np.zeros(2, dtype)
    register, load = ("%r5", "b32") if pairs else ("%h5", "b16")
    body = f"""
  mad.wide.u32 %d20, %r0, 4, %d1; ld.global.{load} {register}, [%d20];
  red.global.add.noftz.{kind}{"x2" if pairs else ""} [%d0], {register};"""
    assert not run(body, [value.view("u2"), made.view("u2")], THREADS).findings
    for column in range(2 if pairs else 1):
        left, _ = fold(lambda old, b: dtype(old + b), dtype(0), made[:, column])
        assert value[column] == left


def test_compare_and_swap():
    value, old = np.array([5], "u4"), np.zeros(4, "u4")
    body = """
  add.u32 %r1, %r0, 5; add.u32 %r2, %r1, 1;
  atom.global.cas.b32 %r3, [%d0], %r1, %r2;
  mad.wide.u32 %d9, %r0, 4, %d1; st.global.u32 [%d9], %r3;"""
    assert not run(body, [value, old], 4).findings
    assert value[0] == 9
    assert old.tolist() == [5, 6, 7, 8]


def test_float_sums_flush_denormals_in_global_memory_alone():
    tiny = np.float32(1e-39)
    for space, left in (("global", 0), ("shared", 2 * tiny)):
        value, b = np.array([tiny]), np.array([tiny] * 2)
        body = program(space, f"red.{space}.add.f32 [{{place}}], {{r}}5;", "f32")
        run(body, [value, np.resize(b, 2)], 1, SHARED)
        assert value[0] == left


BEGIN = "mov.u32 %r2, tile; setp.eq.u32 %p1, %r0, 0;"
ZERO, SYNC = "@%p1 st.shared.u32 [%r2], 0;", "bar.sync 0;"
ADD, READ = "red.shared.add.u32 [%r2], 1;", "ld.shared.u32 %r3, [%r2];"
CLOCKED = "bar.sync 1, 64;"
"""A numbered barrier, by which what threads know of each other is kept."""


@pytest.mark.parametrize("sync", [SYNC, CLOCKED])
@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        ((ZERO, SYNC, ADD, ADD, SYNC, READ), set()),
        ((ZERO, ADD, SYNC, READ), {"race"}),
        ((ZERO, SYNC, ADD, READ), {"race"}),
        ((ZERO, SYNC, READ, ADD), {"race"}),
        ((ZERO, SYNC, ADD, ZERO), {"race"}),
        ((ADD, SYNC, READ), {"uninitialised"}),
    ],
)
def test_atomics_race_with_plain_accesses_alone(steps, kinds, sync):
    body = BEGIN + "\n".join(sync if step == SYNC else step for step in steps)
    report = run(body, [np.zeros(1, "u4")], THREADS, SHARED)
    assert {one.kind for one in report.findings} == kinds


@pytest.mark.parametrize(
    ("place", "kind"),
    [("%d0+8", "out of bounds"), ("%d0+2", "misaligned"), ("%d0+-4", "out of bounds")],
)
def test_addresses(place, kind):
    report = run(f"red.global.add.u32 [{place}], 1;", [np.zeros(2, "u4")], 1)
    assert [one.kind for one in report.findings] == [kind]


WAIT = """
  setp.lt.u32 %p1, %r0, 32;
  @%p1 bra $waits;
  {other}
  bra $end;
$waits:
  {look}
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra $waits;
$end:"""
LOOKS = ["ld.volatile.global.u32 %r3, [%d0];", "ld.acquire.gpu.global.u32 %r3, [%d0];"]
LOOKS += ["atom.global.cas.b32 %r3, [%d0], 1, 1;"]


@pytest.mark.parametrize("look", LOOKS)
def test_a_warp_waits_for_another_one(look):
    """The first warp runs first, and gives way."""
    value = np.zeros(1, "u4")
    body = WAIT.format(look=look, other="st.release.gpu.global.u32 [%d0], 1;")
    assert not run(body, [value], THREADS).findings
    assert value[0] == 1


@pytest.mark.parametrize("look", LOOKS)
def test_what_never_comes_is_a_deadlock(look):
    report = run(WAIT.format(look=look, other=""), [np.zeros(1, "u4")], THREADS)
    assert [(one.kind, one.detail) for one in report.findings] == [
        ("deadlock", "nobody changes what it waits for")
    ]


def test_looking_at_many_places_is_no_waiting():
    body = """
  mov.u32 %r1, 0;
$next:
  mad.wide.u32 %d9, %r1, 4, %d0; atom.global.cas.b32 %r3, [%d9], 7, 7;
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5000; @%p1 bra $next;"""
    assert not run(body, [np.zeros(5000, "u4")], 1).findings


@pytest.mark.parametrize("look", LOOKS)
def test_looking_often_is_no_waiting(look):
    body = f"""
  mov.u32 %r1, 0;
$next:
  {look}
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5000; @%p1 bra $next;"""
    assert not run(body, [np.zeros(1, "u4")], THREADS).findings


def test_accesses_are_counted_both_ways():
    (launch,) = run("red.global.add.u32 [%d0], 1;", [np.zeros(1, "u4")], 32).launches
    assert launch.load_bytes == launch.store_bytes == 128


@pytest.mark.parametrize(
    "unknown",
    ["atom.global.add.s64 %d3, [%d0], %d4;", "red.global.add.f16 [%d0], %h1;", "red.exch.b32 %r1;"],
)
def test_what_the_isa_has_not_is_named(unknown):
    with pytest.raises(EmulatorError, match="is not one that the executor knows"):
        run(unknown, [np.zeros(1, "u8")], 1)


LAST_BLOCK = """
__device__ unsigned done = 0;
extern "C" __global__ void total(const float* x, float* parts, float* y) {
  __shared__ float sum;
  __shared__ bool last;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < gridDim.x; ++i) all += parts[i];
    *y = all;
  }
}
"""


@needs_nvrtc
def test_the_last_block_adds_what_all_have():
    x = np.arange(7 * 96, dtype="f4")
    y, parts = np.zeros(1, "f4"), np.zeros(7, "f4")
    ptx = compile_ptx(LAST_BLOCK, "compute_80")
    assert not execute(ptx, "total", (7, 1, 1), (96, 1, 1), [x, parts, y]).findings
    assert y[0] == x.sum()
