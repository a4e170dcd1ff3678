"""Weight streams against the naive reference, executed, and their machine code."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

from tests.cuda.kernels import (
    assert_lean,
    block_threads,
    compiled,
    executed,
    needs_nvrtc,
    samples,
    scheduled,
    source,
    space,
    typed,
)
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.stream import (
    Cut,
    Warps,
    choose_warps,
    padded_rows,
    stage_dtype,
    staged_bytes,
    stream_balanced,
    stream_dense,
)
from tvm_sparse.schedules.cuda.stream import StreamRule


def whole(format):
    """A stream that is not cut into parts."""
    return Cut(format, Warps(1, 1))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(
    ("lead", "cols", "rows", "sparsity", "warps", "dtype"),
    [
        ((1,), 1000, 61, 0.9, Warps(4, 2), "float16"),
        ((8,), 520, 17, 0.75, Warps(4, 4), "float32"),
        ((3, 1, 1), 103, 9, 0.5, Warps(1, 2), "bfloat16"),
        ((8,), 520, 61, 0.75, Warps(8, 6), "float16"),
        ((5,), 4096, 8, 0.8, Warps(4, 2), "float16"),
        ((1,), 64, 8, 1.0, Warps(4, 1), "float32"),
        # One turn of columns for four warps: three of them must leave shared memory alone.
        ((3,), 96, 17, 0.75, Warps(4, 1), "float16"),
    ],
)
def test_banks_equal_the_reference(lead, cols, rows, sparsity, warps, dtype, emulator):
    rng = np.random.default_rng(0)
    c = Contraction(lead, cols, rows, numerics=Numerics.uniform(dtype, "float32"))
    matrix, x = integers(rng, (rows, cols), sparsity), integers(rng, c.input_shape)
    format = LaneBanksFormat.of(matrix).words_beside()
    func = scheduled(stream_balanced(c, format, warps), StreamRule())
    arrays = [typed(x, dtype), *format.encode(typed(matrix, dtype)).values()]
    out = executed(emulator, func, arrays, c.output_shape)
    assert np.array_equal(out, reference(c, x, matrix))


@needs_nvrtc
@pytest.mark.parametrize(
    ("lead", "cols", "rows"), [((1,), 1000, 61), ((1, 1, 1), 33, 10), ((2,), 4200, 16)]
)
def test_dense_rows_equal_the_reference(lead, cols, rows, emulator):
    rng = np.random.default_rng(0)
    c = Contraction(lead, cols, rows)
    matrix, x = integers(rng, (rows, cols)), integers(rng, c.input_shape)
    format = DenseFormat(rows, cols, lanes=1)
    func = scheduled(stream_dense(c, format, Warps(4, 2)), StreamRule())
    out = executed(emulator, func, [x, *format.encode(matrix).values()], c.output_shape)
    assert np.array_equal(out, reference(c, x, matrix))


@needs_nvrtc
@pytest.mark.parametrize(("rows", "dtype"), [(1, "float16"), (8, "float16"), (8, "float32")])
def test_thread_blocks_fit_the_registers_of_an_sm(rows, dtype):
    c = Contraction((rows,), 4096, 4096, numerics=Numerics.uniform(dtype, "float32"))
    format = LaneBanksFormat(4096, 4096, keep=3, bank=32, vector=4).words_beside()
    warps = choose_warps(4096, 132, staged_bytes(c, whole(format)))
    func = scheduled(stream_balanced(c, format, warps), StreamRule(), "sm_90")
    assert_lean(func, "sm_90", registers=65536 // (32 * warps.count))


@needs_nvrtc
def test_dense_machine_code_is_lean():
    c = Contraction((1,), 25088, 4096, numerics=Numerics.uniform("float16"))
    func = stream_dense(c, DenseFormat(4096, 25088, lanes=1), Warps(8, 2))
    assert_lean(scheduled(func, StreamRule()), "sm_90", registers=128)


def test_few_activations_are_staged_as_fp32():
    format = LaneBanksFormat(8, 8192, keep=4, bank=16, vector=8)
    half = Contraction((1,), 8192, 8, numerics=Numerics.uniform("float16"))
    assert stage_dtype(half, whole(format)) == "float32"
    assert staged_bytes(half, whole(format)) == 32 << 10
    eight = dataclasses.replace(half, lead=(5,))
    assert stage_dtype(eight, whole(format)) == "float16"
    assert staged_bytes(eight, whole(format)) == 128 << 10


@pytest.mark.parametrize("bank", [8, 16, 32, 64])
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_lanes_never_meet_in_a_bank_of_shared_memory(bank, rows):
    """Whatever the indices: 4-byte words of the lanes that one pass over the banks serves."""
    rng = np.random.default_rng(0)
    size = min(16, 2 * rows if rows > 1 else 4)
    lanes_together = 32 // max(1, size // 4)
    inner = rng.integers(0, bank, 32)
    start = (inner * 32 + np.arange(32)) * size
    for first in range(0, 32, lanes_together):
        part = start[first : first + lanes_together]
        words = {(int(s) // 4 + w) % 32 for s in part for w in range(max(1, size // 4))}
        assert len(words) == len(part) * max(1, size // 4) or size < 4


@pytest.mark.parametrize(("rows", "power"), [(1, 1), (2, 2), (3, 4), (5, 8), (8, 8)])
def test_padded_rows(rows, power):
    assert padded_rows(rows) == power


@pytest.mark.parametrize("rows", [10, 1000, 4096, 16384])
@pytest.mark.parametrize("staged", [0, 128 << 10])
def test_thread_blocks_fill_the_chip(rows, staged):
    warps = choose_warps(rows, 132, staged)
    blocks = math.ceil(rows / warps.block)
    assert warps.count <= 32
    if staged:
        assert blocks <= 132
    elif rows >= 1000:
        assert blocks >= 132


def streams(rows):
    c = Contraction((rows,), 520, 64, numerics=Numerics.uniform("float16", "float32"))
    matrix = integers(np.random.default_rng(0), c.matrix_shape, 0.75)
    format = LaneBanksFormat.of(matrix).words_beside()
    return c, matrix, format, stream_balanced(c, format, Warps(4, 2))


@pytest.mark.parametrize("rows", [1, 8])
def test_a_space_begins_with_the_default(rows):
    *_, func = streams(rows)
    found = space(func, StreamRule())
    assert found.default.values[0] == (8, 4, 2)
    assert source(found.variants[0].mod["main"]) == source(scheduled(func, StreamRule()))
    assert found.rule.feasible(found.variants[0])


READ_TWICE = {
    "values": (r"(mul\.lo\.s32\s+%r\d+, %r\d+), 640;", r"\1, 0;"),
    "indices": (r"shl\.b32(\s+%r\d+, %r\d+), 7;", r"and.b32\1, 0;"),
}
"""How the place of a chunk follows from its number: 20 slots of 32 lanes, four words of them."""


@needs_nvrtc
@pytest.mark.parametrize("what", [None, *READ_TWICE])
def test_a_chunk_that_is_read_twice_would_be_noticed(what, emulator):
    rng = np.random.default_rng(0)
    c = Contraction((5,), 2000, 61)
    matrix, x = integers(rng, c.matrix_shape, 0.75), integers(rng, c.input_shape)
    format = dataclasses.replace(LaneBanksFormat.of(matrix), most=8).words_beside()
    assert (format.chunks, format.chunk) == (2, 20)

    def change(text):
        changed, count = re.subn(*READ_TWICE[what], text) if what else (text, 1)
        assert count
        return changed

    func = scheduled(stream_balanced(c, format, Warps(4, 2)), StreamRule())
    operands = [x, *format.encode(matrix).values()]
    out = executed(emulator, func, operands, c.output_shape, change=change)
    right = (out == reference(c, x, matrix)).mean()
    assert right < 0.1 if what else right == 1


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [1, 8])
def test_candidates_fit_the_registers_of_an_sm(rows):
    *_, func = streams(rows)
    for schedule in samples(space(func, StreamRule()), 2):
        main = schedule.mod["main"]
        for used in compiled(main, "sm_90").values():
            assert used.registers * block_threads(main) <= 65536


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [1, 5])
def test_candidates_equal_the_reference(rows, emulator):
    c, matrix, format, func = streams(rows)
    x = integers(np.random.default_rng(1), c.input_shape)
    for schedule in samples(space(func, StreamRule()), 1):
        arrays = [typed(x, c.dtype), *format.encode(typed(matrix, c.dtype)).values()]
        out = executed(emulator, schedule.mod["main"], arrays, c.output_shape)
        assert np.array_equal(out, reference(c, x, matrix)), schedule.trace
