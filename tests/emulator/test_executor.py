"""Instructions against what the PTX ISA says, computed exactly."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.snippets import apply, kernel, rounded, run
from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.executor import execute

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": BF16}
BITS = {"f32": np.dtype("u4"), "f16": np.dtype("u2"), "bf16": np.dtype("u2")}


def numbers(kind, count=256, seed=0, spread=6):
    """Floats of mixed sizes, some of them denormal, as bits where NumPy's kind is not PTX's."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(count) * 2.0 ** rng.integers(-spread, spread, count)
    values[:8] *= 2.0 ** (-130 if kind != "f16" else -16)
    return values.astype(FLOATS[kind])


def exact(array):
    return [Fraction(float(x)) for x in array]


def through(instruction, kind, arrays):
    inputs = [a if kind == "f32" else a.view("u2") for a in arrays]
    return apply(instruction, inputs, BITS[kind] if kind != "f32" else FLOATS[kind]).view(
        FLOATS[kind]
    )


@pytest.mark.grid
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma.rn"])
def test_floats_round_once(name, kind):
    a, b, c = (numbers(kind, seed=s, spread=9 if kind == "f32" else 3) for s in range(3))
    sums = {
        "add": lambda x, y, z: x + y,
        "sub": lambda x, y, z: x - y,
        "mul": lambda x, y, z: x * y,
        "fma.rn": lambda x, y, z: x * y + z,
    }
    inputs = [a, b, c] if name == "fma.rn" else [a, b]
    got = through(f"{name}.{kind}", kind, inputs)
    wanted = [sums[name](*v) for v in zip(exact(a), exact(b), exact(c), strict=True)]
    assert exact(got) == [rounded(w, kind) for w in wanted]


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding(mode):
    a, b, c = (numbers("f32", seed=s) for s in range(3))
    got = through(f"fma.{mode}.f32", "f32", [a, b, c])
    wanted = [x * y + z for x, y, z in zip(exact(a), exact(b), exact(c), strict=True)]
    assert exact(got) == [rounded(w, "f32", mode) for w in wanted]


def test_half_fma_near_a_tie():
    """The exact sum lies just beside the middle of two fp16 numbers: fp64 alone cannot see it."""
    a, b = np.float16([2.0**-24, -(2.0**-24)]), np.float16([2.0**-24, 2.0**-24])
    c = np.float16([1.0, 1.0])
    tie = [np.float16(1 + 2.0**-10), np.float16(1)]
    assert exact(through("fma.rn.f16", "f16", [a, b, c])) == exact(c)
    wide = apply(
        "cvt.rn.f16.f64", [np.float64([1 + 2.0**-11 + 2.0**-52, 1 + 2.0**-11])], BITS["f16"]
    )
    assert exact(wide.view("f2")) == exact(tie)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_narrow_floats_there_and_back(kind):
    every = np.arange(65536, dtype="u2")
    for part in every.reshape(-1, 1024)[::5]:
        wide = apply(f"cvt.f32.{kind}", [part], np.dtype("f4"))
        assert np.array_equal(wide, part.view(FLOATS[kind]).astype("f4"), equal_nan=True)
        back = apply(f"cvt.rn.{kind}.f32", [wide], np.dtype("u2"))
        assert np.array_equal(np.isnan(wide), np.isnan(back.view(FLOATS[kind]).astype("f4")))
        assert np.array_equal(back[~np.isnan(wide)], part[~np.isnan(wide)])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_narrowing_rounds_as_numpy_does(kind):
    values = np.concatenate(
        [numbers("f32", 480), [0.0, -0.0, 1e38, -1e38, np.inf, 65504.0, 65520.0]]
    )
    values = values.astype("f4")
    got = apply(f"cvt.rn.{kind}.f32", [values], np.dtype("u2"))
    with np.errstate(over="ignore"):
        assert np.array_equal(got, values.astype(FLOATS[kind]).view("u2"))


def test_pairs_are_two_numbers():
    low, high = numbers("f32", seed=1), numbers("f32", seed=2)
    packed = apply("cvt.rn.f16x2.f32", [high, low], np.dtype("u4"))
    halves = packed.view("u2").reshape(-1, 2).view("f2")
    assert np.array_equal(halves, np.stack([low, high], 1).astype("f2"))
    twice = apply("add.f16x2", [packed, packed], np.dtype("u4")).view("f2").reshape(-1, 2)
    assert np.array_equal(twice, halves + halves)


INTEGERS = {"s16": "i2", "u16": "u2", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8"}
MEANINGS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: int(Fraction(a, b).__trunc__()),
    "rem": lambda a, b: a - b * int(Fraction(a, b).__trunc__()),
}


def integers(kind, seed, zero=True):
    dtype = np.dtype(INTEGERS[kind])
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    values = rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
    values[:16] = values[:16] % 7
    return values if zero else np.where(values == 0, dtype.type(3), values)


def wrapped(values, dtype):
    bits = 8 * dtype.itemsize
    return np.array([v % (1 << bits) for v in values], f"u{dtype.itemsize}").view(dtype)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", MEANINGS)
def test_integers(name, kind):
    a, b = integers(kind, 1), integers(kind, 2, zero=False)
    wanted = [MEANINGS[name](int(x), int(y)) for x, y in zip(a, b, strict=True)]
    got = apply(f"{name}.{kind}", [a, b], a.dtype)
    assert np.array_equal(got, wrapped(wanted, a.dtype))


@pytest.mark.parametrize("kind", INTEGERS)
def test_high_and_wide_products(kind):
    a, b = integers(kind, 1), integers(kind, 2)
    products = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    bits = 8 * a.dtype.itemsize
    high = apply(f"mul.hi.{kind}", [a, b], a.dtype)
    assert np.array_equal(high, wrapped([p >> bits for p in products], a.dtype))
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        assert np.array_equal(apply(f"mul.wide.{kind}", [a, b], wide), np.array(products, wide))


@pytest.mark.parametrize(("half", "first"), [("lo", 0), ("hi", 2)])
def test_products_of_halves_and_bytes(half, first):
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype="u4") for _ in range(3))
    for left, right in (("u", "u"), ("s", "u"), ("u", "s"), ("s", "s")):
        kinds = {"u": "u", "s": "i"}
        halves = a.view(f"{kinds[left]}2").reshape(-1, 2).astype("i8")
        bytes_ = b.view(f"{kinds[right]}1").reshape(-1, 4).astype("i8")
        wanted = (c + (halves * bytes_[:, first : first + 2]).sum(1)).astype("u4")
        got = apply(f"dp2a.{half}.{left}32.{right}32", [a, b, c], a.dtype)
        assert np.array_equal(got, wanted)


def test_shifts_beyond_the_width():
    a, by = np.full(4, -8, "i4"), np.array([1, 31, 32, 200], "u4")
    assert apply("shr.s32", [a, by], a.dtype).tolist() == [-4, -1, -1, -1]
    assert apply("shr.u32", [a, by], np.dtype("u4")).tolist() == [0x7FFFFFFC, 1, 0, 0]
    assert apply("shl.b32", [a, by], a.dtype).tolist() == [-16, 0, 0, 0]


def test_bits():
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype="u4") for _ in range(3))
    got = apply("lop3.b32 {d}, {a}, {b}, {c}, 0xca", [a, b, c], a.dtype)  # a ? b : c
    assert np.array_equal(got, (a & b) | (~a & c))
    got = apply("prmt.b32 {d}, {a}, {b}, 0x7250", [a, b], a.dtype)
    bytes_ = np.concatenate([a.view("u1").reshape(-1, 4), b.view("u1").reshape(-1, 4)], 1)
    assert np.array_equal(got.view("u1").reshape(-1, 4), bytes_[:, [0, 5, 2, 7]])
    got = apply("prmt.b32 {d}, {a}, {b}, 0xffff", [a, b], a.dtype)  # the sign of byte 7
    assert np.array_equal(got, np.where(b >> 31, 0xFFFFFFFF, 0).astype("u4"))
    assert apply("popc.b32", [a], a.dtype).tolist() == [int(x).bit_count() for x in a]
    assert apply("clz.b32", [a], a.dtype).tolist() == [32 - int(x).bit_length() for x in a]
    field = apply("bfe.u32 {d}, {a}, 5, 9", [a], a.dtype)
    assert np.array_equal(field, a >> 5 & 511)
    signed = apply("bfe.s32 {d}, {a}, 5, 9", [a], np.dtype("i4"))
    assert np.array_equal(signed, ((field.astype("i4") ^ 256) - 256))
    inserted = apply("bfi.b32 {d}, {a}, {b}, 5, 9", [a, b], a.dtype)
    assert np.array_equal(inserted, (b & ~np.uint32(511 << 5)) | (a & 511) << 5)


def test_floats_to_integers_saturate():
    values = np.array([2.5, 3.5, -2.5, 1e20, -1e20, np.nan, -0.4, 7.9], "f4")
    assert apply("cvt.rni.s32.f32", [values], np.dtype("i4")).tolist() == [
        *(2, 4, -2, 2**31 - 1, -(2**31), 0, 0, 8)
    ]
    assert apply("cvt.rzi.u32.f32", [values], np.dtype("u4")).tolist() == [
        *(2, 3, 0, 2**32 - 1, 0, 0, 0, 7)
    ]
    assert apply("cvt.rmi.f32.f32", [values], np.dtype("f4")).tolist()[:3] == [2.0, 3.0, -3.0]
    assert apply("cvt.sat.f32.f32", [values], np.dtype("f4")).tolist() == [
        *(1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    ]


def test_integers_widen_and_narrow():
    values = np.array([-1, 300, -70000, 5], "i4")
    assert apply("cvt.s64.s32", [values], np.dtype("i8")).tolist() == values.tolist()
    assert apply("cvt.u16.u32", [values], np.dtype("u2")).tolist() == [65535, 300, 61072, 5]
    assert apply("cvt.sat.u16.s32", [values], np.dtype("u2")).tolist() == [0, 300, 0, 5]
    assert apply("cvt.rn.f32.s32", [values], np.dtype("f4")).tolist() == values.tolist()


def test_least_and_largest_leave_nan_out():
    a, b = np.array([np.nan, 1, -0.0, np.nan], "f4"), np.array([2, np.nan, 0.0, np.nan], "f4")
    least = apply("min.f32", [a, b], a.dtype)
    assert least[:2].tolist() == [2.0, 1.0]
    assert np.signbit(least[2])
    assert np.isnan(least[3])
    assert np.isnan(apply("max.NaN.f32", [a, b], a.dtype)[:2]).all()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ex2.approx", np.exp2),
        ("lg2.approx", lambda x: np.log2(np.abs(x))),
        ("tanh.approx", np.tanh),
        ("rsqrt.approx", lambda x: 1 / np.sqrt(np.abs(x))),
        ("rcp.rn", lambda x: 1 / x),
        ("sqrt.rn", lambda x: np.sqrt(np.abs(x))),
    ],
)
def test_functions(name, function):
    values = np.random.default_rng(0).uniform(0.1, 4, 64).astype("f4")
    wanted = function(values.astype("f8")).astype("f4")
    assert np.array_equal(apply(f"{name}.f32", [values], values.dtype), wanted)


def test_denormals_live_unless_flushed():
    tiny = np.array([1e-40, -1e-40, 1.0], "f4")
    ones = np.ones(3, "f4")
    assert np.array_equal(apply("mul.f32", [tiny, ones], tiny.dtype), tiny)
    assert apply("mul.ftz.f32", [tiny, ones], tiny.dtype).tolist() == [0.0, 0.0, 1.0]


def test_comparisons_and_choices():
    a, b = np.array([1, np.nan, 2, 3], "f4"), np.array([2, 1, 2, np.nan], "f4")
    tests = {
        "lt": [1, 0, 0, 0],
        "ltu": [1, 1, 0, 1],
        "ne": [1, 0, 0, 0],
        "neu": [1, 1, 0, 1],
        "nan": [0, 1, 0, 1],
    }
    for test, wanted in tests.items():
        text = f"setp.{test}.f32 %p1|%p2, {{a}}, {{b}};\n selp.u32 {{d}}, 1, 0, %p1"
        assert apply(text, [a, b], np.dtype("u4")).tolist() == wanted
        text = f"setp.{test}.f32 %p1|%p2, {{a}}, {{b}};\n selp.u32 {{d}}, 1, 0, %p2"
        assert apply(text, [a, b], np.dtype("u4")).tolist() == [1 - w for w in wanted]


LOOP = """
  mov.u32 %r1, 0; mov.u32 %r2, 0;
$again:
  setp.ge.u32 %p1, %r1, %r0;
  @%p1 bra $done;
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra $even;
  add.u32 %r2, %r2, 100;
  bra.uni $next;
$even:
  add.u32 %r2, %r2, 1;
$next:
  add.u32 %r1, %r1, 1;
  bra.uni $again;
$done:
  activemask.b32 %r4;
  mad.wide.u32 %d9, %r0, 8, %d0;
  st.global.v2.u32 [%d9], {%r2, %r4};
"""


def test_lanes_part_and_meet_again():
    out = np.zeros((70, 2), "u4")
    report = run(LOOP, [out], threads=70)
    counts = [sum(100 if i % 2 else 1 for i in range(t)) for t in range(70)]
    assert out[:, 0].tolist() == counts
    assert out[:, 1].tolist() == [2**32 - 1] * 64 + [63] * 6
    assert report.launches[0].divergent > 0
    assert not report.findings


def test_threads_that_end_early():
    body = """
  setp.lt.u32 %p1, %r0, 5;
  @%p1 bra $go;
  ret;
$go:
  mad.wide.u32 %d9, %r0, 4, %d0;
  st.global.u32 [%d9], %r0;
"""
    out = np.full(32, 99, "u4")
    run(body, [out])
    assert out.tolist() == [0, 1, 2, 3, 4] + [99] * 27


@pytest.mark.parametrize(
    ("way", "lanes"),
    [
        ("idx.b32 %r2|%p1, %r1, 3, 31", lambda lane: 3),
        ("down.b32 %r2|%p1, %r1, 4, 31", lambda lane: lane + 4 if lane < 28 else lane),
        ("up.b32 %r2|%p1, %r1, 4, 0", lambda lane: lane - 4 if lane >= 4 else lane),
        ("bfly.b32 %r2|%p1, %r1, 5, 31", lambda lane: lane ^ 5),
        # Segments of eight lanes.
        ("down.b32 %r2|%p1, %r1, 4, 0x1807", lambda lane: lane + 4 if lane % 8 < 4 else lane),
    ],
)
def test_shuffles(way, lanes):
    body = f"""
  mul.lo.u32 %r1, %r0, 10;
  shfl.sync.{way}, 0xffffffff;
  mad.wide.u32 %d9, %r0, 4, %d0;
  st.global.u32 [%d9], %r2;
"""
    out = np.zeros(32, "u4")
    assert not run(body, [out]).findings
    assert out.tolist() == [10 * lanes(lane) for lane in range(32)]


def test_votes():
    body = """
  setp.lt.u32 %p1, %r0, 7;
  vote.sync.ballot.b32 %r1, %p1, 0xffffffff;
  vote.sync.any.pred %p2, !%p1, 0xffffffff;
  vote.sync.all.pred %p3, %p1, 0xffffffff;
  selp.u32 %r2, 1, 0, %p2;
  selp.u32 %r3, 1, 0, %p3;
  st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r3};
"""
    out = np.zeros(4, "u4")
    run(body, [out])
    assert out.tolist() == [127, 1, 0, 0]


def test_vectors_and_packing():
    body = """
  mad.wide.u32 %d9, %r0, 16, %d0;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d9];
  mov.b32 %r1, %f2;
  mov.b32 {%h1, %h2}, %r1;
  mov.b32 %r2, {%h2, %h1};
  mov.b32 %f2, %r2;
  st.global.v4.f32 [%d9], {%f4, %f3, %f2, %f1};
"""
    data = np.arange(128, dtype="f4").reshape(32, 4) + np.float32(0.3)
    before = data.copy()
    assert not run(body, [data]).findings
    assert np.array_equal(data[:, [0, 1, 3]], before[:, [3, 2, 0]])
    swapped = before[:, 1].copy().view("u2").reshape(-1, 2)[:, ::-1]
    assert np.array_equal(data[:, 2].copy().view("u2").reshape(-1, 2), swapped)


@pytest.mark.parametrize(
    "unknown",
    [
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1}, %d1, %d2, 1",
        "wgmma.wait_all.sync.aligned",
        "mbarrier.pending_count.b64 %r1, %d1",
        "cp.async.bulk.prefetch.L2.global [%d0], %r1",
        "bar.red.popc.u32 %r1, 0, %p1",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0}, {%r1}, {%r2}, {%f0}",
        "cvt.f16.f32 %h1, %f1",
        "ld.global.v8.u32 %r1, [%d0]",
    ],
)
def test_what_is_not_known_is_named(unknown):
    name = unknown.split()[0]
    with pytest.raises(EmulatorError, match=f"PTX line \\d+: instruction '{name}' is not one"):
        run(f"  {unknown};", [np.zeros(4, "u4")])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("  mov.u32 %r1, %nothing;", "unknown name '%nothing'"),
        ("  bra $nowhere;", "unknown label"),
        ("  add.u32 %r1, %d1, %r1;", "has 8 bytes, expected 4"),
        ("  .surface x;", "unknown directive"),
    ],
)
def test_malformed_text_is_refused(body, problem):
    with pytest.raises(EmulatorError, match=problem):
        run(body, [np.zeros(4, "u4")])


def test_launches_are_checked():
    text = kernel("", 1).replace("\n{", "\n.maxntid 32, 1, 1\n{")
    arguments = [np.zeros(4, "u4")]
    with pytest.raises(EmulatorError, match="33 threads a block, it allows 32"):
        execute(text, "k", (1, 1, 1), (33, 1, 1), arguments)
    with pytest.raises(EmulatorError, match="no kernel 'other'"):
        execute(text, "other", (1, 1, 1), (32, 1, 1), arguments)
