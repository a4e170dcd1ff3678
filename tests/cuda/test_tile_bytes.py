"""Tiles of bytes on tensor cores against the naive reference, executed, and their machine code."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.cuda.kernels import (
    ARCHS,
    assert_lean,
    executed,
    needs_nvrtc,
    samples,
    scheduled,
    source,
    space,
    target,
)
from tvm_sparse.base.numerics import INTEGERS, Numerics
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.kept_tiles import KeptTilesFormat
from tvm_sparse.formats.offsets import OffsetFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.dense_weights import DenseRows
from tvm_sparse.ops.cuda.joint_weights import JointOperand
from tvm_sparse.ops.cuda.multiply import TensorCore
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.tile_tensor_core import TileBytesRule
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.tile_choice import choose_step

LINEAR = Contraction((2, 25), 72, 70)
ODD = Contraction((19,), 77, 33)
PLANE = Contraction((2, 3, 5), 48, 40, (1, 1), (1, 1), (1, 1), padded=(3, 5))
STRIDED = Contraction((2, 4, 4), 16, 40, (3, 3), (2, 2), (1, 1), padded=(8, 8), borders=(1, 1))
LONG = Contraction((16,), 256, 32)
CASES = {
    "linear": (LINEAR, ThreadBlockTile(32, 32, 64)),
    "odd": (ODD, ThreadBlockTile(16, 48, 32)),
    "plane": (PLANE, ThreadBlockTile(32, 16, 32)),
    "strided": (STRIDED, ThreadBlockTile(16, 32, 128)),
    "parts": (LONG, ThreadBlockTile(16, 32, 32, parts=4)),
}


def numbers(rng, shape, dtype, zeros=0.0):
    """Bytes of the whole range, some of them zero."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < zeros, 0, found).astype(dtype)


def weights(kind, c, tile, matrix):
    if kind == "dense":
        return DenseRows(DenseFormat(*c.matrix_shape, lanes=1), tile)
    size = {"lanes": tile.features, "step": tile.columns}
    if kind == "joint":
        return JointOperand(KeptTilesFormat.of(matrix, **size), tile)
    return BalancedOperand(TileBanksFormat.of(matrix, **size), tile)


def operator(kind, c, tile, matrix):
    """The operator, and its arrays."""
    right = weights(kind, c, tile, matrix)
    format = OffsetFormat(right.format, c.features, c.zero_point) if c.zero_point else right.format
    return tiled(c, right, tile, TensorCore()), list(format.encode(matrix).values())


def operands(kind, case, numerics):
    """A contraction, its tile, bytes to multiply, and a weight with zeros unless it is dense."""
    c, tile = CASES[case]
    # Around an image, the byte zero means zero.
    c = dataclasses.replace(c, numerics=numerics, zero_point=0 if c.borders else 5)
    rng = np.random.default_rng(0)
    matrix = numbers(rng, c.matrix_shape, "int8", 0.0 if kind == "dense" else 0.8)
    return c, tile, numbers(rng, c.input_shape, c.dtype), matrix


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("numerics", INTEGERS, ids=str)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["dense", "balanced", "joint"])
def test_equals_the_reference(kind, case, numerics, emulator):
    c, tile, x, matrix = operands(kind, case, numerics)
    func, arrays = operator(kind, c, tile, matrix)
    func = scheduled(func, TileBytesRule())
    out = executed(emulator, func, [x, *arrays], c.output_shape, "int32")
    np.testing.assert_array_equal(out, reference(c, x, matrix))


@needs_nvrtc
@pytest.mark.parametrize("rows", [1, 17, 40])
def test_rows_may_be_open(rows, emulator):
    """One kernel for any number of rows; those of a tile past the last one are nobody's."""
    n = tirx.Var("n", "int64")
    c, tile = (
        dataclasses.replace(LINEAR, lead=(n,), numerics=INTEGERS[0]),
        ThreadBlockTile(16, 32, 64),
    )
    rng = np.random.default_rng(rows)
    matrix, x = numbers(rng, c.matrix_shape, "int8"), numbers(rng, (rows, c.columns), "uint8")
    func, arrays = operator("dense", c, tile, matrix)
    func = scheduled(func, TileBytesRule())
    out = executed(emulator, func, [x, *arrays], (rows, c.features), "int32")
    np.testing.assert_array_equal(out, x.astype(np.int32) @ matrix.T.astype(np.int32))


@needs_nvrtc
def test_sums_are_as_large_as_bytes_allow(emulator):
    c, tile = dataclasses.replace(LONG, numerics=INTEGERS[0]), CASES["parts"][1]
    x, matrix = np.full(c.input_shape, 255, np.uint8), np.full(c.matrix_shape, -128, np.int8)
    func, arrays = operator("dense", c, tile, matrix)
    func = scheduled(func, TileBytesRule())
    out = executed(emulator, func, [x, *arrays], c.output_shape, "int32")
    np.testing.assert_array_equal(out, 255 * -128 * c.columns)


MUTATIONS = {
    "signs": (r"s32\.u8\.s8", "s32.s8.s8"),
    "order of columns": (r"(mma\S+ \{[^}]*\}, \{)(%r\d+)(,%r\d+,)(%r\d+)", r"\1\4\3\2"),
    "halves of a weight": (r"(mma.*\{)(%r\d+),(%r\d+)(\}, \{[^}]*\};)", r"\1\3,\2\4"),
    "a copy from the next place": (r"(cp\.async\.cg\S+ \[\S+\], \[%rd\d+)\]", r"\1+16]"),
    "a lost offset": (
        r"(add\.s32\s+%r\d+, %r\d+, )%r\d+(;\s+(?:add\.s32[^;]*;\s+)*st\.global)",
        r"\g<1>0\2",
    ),
}


@needs_nvrtc
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mistake_in_the_kernel_is_noticed(mutation, emulator):
    pattern, by = MUTATIONS[mutation]
    c, tile, x, matrix = operands("dense", "plane", INTEGERS[0])
    func, arrays = operator("dense", c, tile, matrix)
    func = scheduled(func, TileBytesRule())

    def changed(text):
        found, count = re.subn(pattern, by, text, count=1)
        assert count, "nothing to change"
        return found

    out = executed(emulator, func, [x, *arrays], c.output_shape, "int32", change=changed)
    assert not np.array_equal(out, reference(c, x, matrix))


@needs_nvrtc
@pytest.mark.parametrize("kind", ["dense", "balanced"])
def test_bytes_are_copied_sixteen_at_a_time(kind, emulator):
    """Also where some are outside: no copy of a byte, and none that waits."""
    c, tile, x, matrix = operands(kind, "strided", INTEGERS[1])
    func, arrays = operator(kind, c, tile, matrix)
    texts = []

    def seen(text):
        texts.append(text)
        return text

    func = scheduled(func, TileBytesRule())
    executed(emulator, func, [x, *arrays], c.output_shape, "int32", change=seen)
    (text,) = texts
    assert "cp.async.cg.shared.global" in text
    assert not re.search(r"ld\.global(\.nc)?\.[us]8", text)
    assert dense_stores(text) == (kind == "dense")


def dense_stores(text):
    """Whether no byte is stored alone to shared memory, as banks are when they are decoded."""
    return not re.search(r"st\.shared\.[us]8", text)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("rows", [1, 64, 4096])
def test_machine_code_is_lean(rows, arch):
    c = Contraction((rows,), 1024, 1024, numerics=INTEGERS[1])
    func = scheduled(options.dense(c, target(arch)).build(), TileBytesRule(), arch)
    assert_lean(func, arch, registers=128)
    counts = instruction_counts(nvrtc.compile_source(source(func, arch), arch))
    assert sum(found["IMMA"] for found in counts.values()) > 0
    assert not any(found["HMMA"] for found in counts.values())


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("kind", ["dense", "balanced"])
def test_random_schedules_compute_the_same(kind, emulator):
    c, tile, x, matrix = operands(kind, "linear", INTEGERS[0])
    func, arrays = operator(kind, c, tile, matrix)
    for schedule in samples(space(func, TileBytesRule()), 2):
        main = schedule.mod["main"].with_attr("global_symbol", "main")
        out = executed(emulator, main, [x, *arrays], c.output_shape, "int32")
        np.testing.assert_array_equal(out, reference(c, x, matrix))


@pytest.mark.parametrize(
    ("columns", "step"), [(8192, 128), (72, 32), (576, 64), (1000, 128), (8, 32)]
)
def test_steps_are_whole_products(columns, step):
    assert choose_step(columns, "int8") == step


def test_options_of_bytes():
    """Dense, banks and kept tiles by tensor cores, for any number of rows; others say why not."""
    rng, on = np.random.default_rng(0), chip(target())
    for rows in (1, 8, 64, 4096):
        c = Contraction((rows,), 512, 256, numerics=INTEGERS[1], zero_point=3)
        half = dataclasses.replace(c, numerics=Numerics.uniform("float16"), zero_point=0)
        dense = options.dense(c, target())
        assert dense.kernel == "byte tile"
        assert dense.demand.dtype == "int8"
        assert rows == 1 or dense.seconds < options.dense(half, target()).seconds
        matrix = numbers(rng, c.matrix_shape, "int8", 0.8)
        matrix[:, 128:] = 0
        found = list(options.sparse(c, Scan(matrix), target()))
        assert {o.name: o.kernel for o in found if not isinstance(o, str)} == {
            "balanced": "byte tile",
            "joint": "byte tile",
        }
        assert {o.partition(":")[0] for o in found if isinstance(o, str)} >= {"two_four", "block"}
    assert on.multiply_adds("int8") == 2 * on.multiply_adds("float16")


@pytest.mark.grid
@needs_nvrtc
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.tuples(*(st.integers(1, most) for most in (40, 200, 70))),
    zero=st.integers(-128, 127),
    packed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_what_is_chosen_is_right_for_any_size(emulator, size, zero, packed, seed):
    rows, columns, features = size
    c = Contraction((rows,), columns, features, numerics=INTEGERS[1], zero_point=zero)
    rng = np.random.default_rng(seed)
    matrix = numbers(rng, c.matrix_shape, "int8", 0.7 * packed)
    x = numbers(rng, c.input_shape, "int8")
    on = target("sm_80")
    found = [options.dense(c, on)] if not packed else list(options.balanced(c, Scan(matrix), on))
    (option,) = found
    format = OffsetFormat(option.format, features, zero) if zero else option.format
    func = scheduled(option.build(), TileBytesRule(), "sm_80")
    arrays = list(format.encode(matrix).values())
    out = executed(emulator, func, [x, *arrays], c.output_shape, "int32")
    np.testing.assert_array_equal(out, reference(c, x, matrix))
