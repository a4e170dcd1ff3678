"""Products that hand-written kernels use besides: short ones, tf32, sums of fp16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.snippets import run
from tvm_sparse_emulator.errors import EmulatorError

ROWS, FEATURES = 16, 8
LANES = range(32)
BF16 = np.dtype(ml_dtypes.bfloat16)
FORMS = {
    "m16n8k8.row.col.f32.f16.f16.f32": (8, np.dtype("f2"), np.dtype("f4")),
    "m16n8k8.row.col.f32.bf16.bf16.f32": (8, BF16, np.dtype("f4")),
    "m16n8k8.row.col.f16.f16.f16.f16": (8, np.dtype("f2"), np.dtype("f2")),
    "m16n8k16.row.col.f16.f16.f16.f16": (16, np.dtype("f2"), np.dtype("f2")),
    "m16n8k16.row.col.f32.f16.f16.f32": (16, np.dtype("f2"), np.dtype("f4")),
    "m16n8k4.row.col.f32.tf32.tf32.f32": (4, np.dtype("f4"), np.dtype("f4")),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (8, np.dtype("f4"), np.dtype("f4")),
}


def places(columns, dtype):
    """Row and column of each element of A, by register, lane and part (PTX ISA, mma fragments)."""
    each = 4 // dtype.itemsize
    for register in range(columns * dtype.itemsize // 8):
        for lane in LANES:
            for part in range(each):
                row = lane // 4 + 8 * (register % 2)
                yield register, lane, part, row, lane % 4 * each + part + 4 * each * (register // 2)


def sums(dtype):
    """Row and feature of each sum, by register, lane and part."""
    each = 4 // dtype.itemsize
    for element in range(4):
        for lane in LANES:
            row, feature = lane // 4 + element // 2 * 8, lane % 4 * 2 + element % 2
            yield element // each, lane, element % each, row, feature


def multiplied(form, a, b, c):
    """Run the product of matrices; return the sums."""
    columns, dtype, out = FORMS[form]
    count, wide = columns * dtype.itemsize // 8, 4 * out.itemsize // 4
    left = np.zeros((count, 32, 4 // dtype.itemsize), dtype)
    right = np.zeros((count // 2, 32, 4 // dtype.itemsize), dtype)
    old = np.zeros((wide, 32, 4 // out.itemsize), out)
    for register, lane, part, row, column in places(columns, dtype):
        left[register, lane, part] = a[row, column]
        if register % 2 == 0:  # of B, a lane's row is a feature
            right[register // 2, lane, part] = b[column, row]
    for register, lane, part, row, feature in sums(out):
        old[register, lane, part] = c[row, feature]
    names = {"a": count, "b": count // 2, "c": wide}
    first, lines = {"a": 1, "b": 9, "c": 13}, ["mul.wide.u32 %d8, %r0, 4;"]
    for name, array in (("a", 0), ("b", 1), ("c", 2)):
        lines.append(f"add.s64 %d9, %d{array}, %d8;")
        lines += [
            f"ld.global.b32 %r{first[name] + i}, [%d9+{128 * i}];" for i in range(names[name])
        ]
    vectors = {
        name: ", ".join(f"%r{first[name] + i}" for i in range(n)) for name, n in names.items()
    }
    made = ", ".join(f"%r{20 + i}" for i in range(wide))
    lines.append(
        f"mma.sync.aligned.{form} {{{made}}}, {{{vectors['a']}}}, {{{vectors['b']}}},"
        f" {{{vectors['c']}}};"
    )
    lines += [f"st.global.b32 [%d9+{128 * i}], %r{20 + i};" for i in range(wide)]
    report = run("\n".join(lines), [left.view("u4"), right.view("u4"), old.view("u4")])
    assert not report.findings
    assert report.launches[0].multiply_adds == ROWS * FEATURES * columns
    found = np.zeros((ROWS, FEATURES), out)
    for register, lane, part, row, feature in sums(out):
        found[row, feature] = old[register, lane, part]
    return found


@pytest.mark.parametrize("form", FORMS)
def test_products_are_exact_on_small_integers(form):
    columns, dtype, out = FORMS[form]
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.integers(-4, 5, shape).astype(kind)
        for shape, kind in (
            ((ROWS, columns), dtype),
            ((columns, FEATURES), dtype),
            ((ROWS, FEATURES), out),
        )
    )
    wanted = a.astype("f8") @ b.astype("f8") + c.astype("f8")
    np.testing.assert_array_equal(multiplied(form, a, b, c), wanted)


def test_sums_of_halves_round_once():
    form = "m16n8k16.row.col.f16.f16.f16.f16"
    a, b = np.ones((ROWS, 16), "f2"), np.ones((16, FEATURES), "f2")
    c = np.full((ROWS, FEATURES), 2048, "f2")  # its neighbours are two apart
    a[:, 1:] = 0.125
    np.testing.assert_array_equal(multiplied(form, a, b, c), np.float16(2048 + 2.875))


def test_tf32_has_ten_bits_of_fraction():
    form = "m16n8k8.row.col.f32.tf32.tf32.f32"
    a, b = np.full((ROWS, 8), 1 + 2.0**-10 + 2.0**-12, "f4"), np.ones((8, FEATURES), "f4")
    found = multiplied(form, a, b, np.zeros((ROWS, FEATURES), "f4"))
    np.testing.assert_array_equal(found, np.float32(8 * (1 + 2.0**-10)))


@pytest.mark.parametrize(
    "form",
    [
        "m16n8k4.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f32.tf32.tf32.f32",
        "m16n8k8.row.col.f16.bf16.bf16.f16",
        "m16n8k8.row.col.f32.f16.f16.f16",
        "m16n8k32.row.col.f32.e4m3.e4m3.f32",
    ],
)
def test_what_is_not_covered_is_refused(form):
    four = "{%r1, %r2, %r3, %r4}"
    with pytest.raises(EmulatorError, match="is not one that the executor knows"):
        run(f"mma.sync.aligned.{form} {four}, {four}, {{%r5, %r6}}, {four};", [])
