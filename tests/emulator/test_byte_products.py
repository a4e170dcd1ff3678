"""Products of bytes on tensor cores, against the fragments that the PTX ISA names."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import run
from tvm_sparse_emulator.errors import EmulatorError

DTYPES = {"s8": np.int8, "u8": np.uint8}
MULTIPLY = "mma.sync.aligned.m16n8k{k}.row.col{more}.s32.{left}.{right}.s32 {d}, {a}, {b}, {c};"


def left_place(lane, i):
    """Row and column of byte ``i`` of A ("Matrix Fragments for mma.m16n8k32")."""
    row = lane // 4 + (8 if i // 4 % 2 else 0)
    return row, lane % 4 * 4 + i % 4 + (16 if i >= 8 else 0)


def right_place(lane, i):
    """Column and feature of byte ``i`` of B."""
    return lane % 4 * 4 + i % 4 + (16 if i >= 4 else 0), lane // 4


def sum_place(lane, i):
    """Row and feature of sum ``i``."""
    return lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + i % 2


def held(matrix, count, place):
    """What the lanes hold of a matrix, ``count`` elements each."""
    lanes = [[matrix[place(lane, i)] for i in range(count)] for lane in range(32)]
    return np.array(lanes, matrix.dtype)


def text(k, left="s8", right="s8", more="", loads=""):
    """A kernel's body: each lane loads its fragments, multiplies and stores its sums."""
    a, b = k // 8, k // 16

    def names(first, count):
        return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"

    lines = [loads] if loads else [load("%d0", names(10, a), 4 * a, a)]
    lines += [load("%d1", names(20, b), 4 * b, b), load("%d2", names(1, 4), 16, 4)]
    lines += [
        MULTIPLY.format(
            k=k, more=more, left=left, right=right, d=names(5, 4), a=names(10, a),
            b=names(20, b), c=names(1, 4),
        ),
        "mad.wide.u32 %d10, %r0, 16, %d3;",
        f"st.global.v4.b32 [%d10], {names(5, 4)};",
    ]  # fmt: skip
    return "\n".join(lines)


def load(pointer, registers, nbytes, count):
    width = f".v{count}" if count > 1 else ""
    return (
        f"mad.wide.u32 %d10, %r0, {nbytes}, {pointer};\nld.global{width}.b32 {registers}, [%d10];"
    )


def random(dtype, shape, seed):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("k", [16, 32])
@pytest.mark.parametrize("right", DTYPES)
@pytest.mark.parametrize("left", DTYPES)
def test_fragments_are_those_of_the_isa(left, right, k):
    a, b = random(DTYPES[left], (16, k), 0), random(DTYPES[right], (k, 8), 1)
    before, out = random(np.int32, (16, 8), 2), np.zeros((32, 4), np.int32)
    operands = [held(a, k // 2, left_place), held(b, k // 4, right_place)]
    report = run(text(k, left, right), [*operands, held(before, 4, sum_place), out])
    assert not report.findings
    wanted = a.astype(np.int64) @ b.astype(np.int64) + before
    # Sums wrap: 32 bits are what is left of them.
    np.testing.assert_array_equal(out, held(wanted.astype(np.int32), 4, sum_place))
    assert report.launches[0].multiply_adds == 16 * 8 * k


def test_ldmatrix_loads_rows_of_bytes():
    a, b = random(np.int8, (16, 32), 0), random(np.int8, (32, 8), 1)
    zero, out = np.zeros((16, 8), np.int32), np.zeros((32, 4), np.int32)
    loads = """
      mad.wide.u32 %d10, %r0, 16, %d0;
      ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%d10];
      shr.u32 %r30, %r0, 1; and.b32 %r31, %r0, 1; mov.u32 %r32, tile;
      mad.lo.u32 %r30, %r30, 48, %r32; mad.lo.u32 %r30, %r31, 16, %r30;
      st.shared.v4.b32 [%r30], {%r10, %r11, %r12, %r13};
      bar.sync 0;
      and.b32 %r30, %r0, 15; shr.u32 %r31, %r0, 4;
      mad.lo.u32 %r30, %r30, 48, %r32; mad.lo.u32 %r30, %r31, 16, %r30;
      ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r30];
    """
    operands = [a, held(b, 8, right_place), held(zero, 4, sum_place), out]
    report = run(text(32, loads=loads), operands, shared=".shared .align 16 .b8 tile[768];")
    assert not report.findings
    wanted = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(out, held(wanted, 4, sum_place))


@pytest.mark.parametrize("unknown", [{"more": ".satfinite"}, {"left": "s4"}, {"left": "b8"}])
def test_what_is_not_known_is_named(unknown):
    with pytest.raises(EmulatorError, match=r"instruction 'mma\.sync"):
        run(text(32, **unknown), [np.zeros(128, np.int32)] * 4)


def test_products_need_a_whole_warp():
    zeros = [np.zeros(128, np.int32)] * 3
    report = run(text(32), [*zeros, np.zeros(128, np.int32)], threads=16)
    assert {finding.kind for finding in report.findings} == {"warp divergence"}
