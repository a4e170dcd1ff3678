"""Reductions in parts: exact in every format, added in one order, a point of the tuning space."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch
from torch import nn

from tests import kernels
from tests.cuda.kernels import (
    assert_lean,
    executed,
    needs_nvrtc,
    samples,
    scheduled,
    source,
    space,
    typed,
)
from tests.cuda.test_tile import RULES, emulated, weights
from tests.emulation.exact import check, integers, sample
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.mends import Mends, using
from tvm_sparse.ops.cuda.multiply import Scalar, TensorCore
from tvm_sparse.ops.cuda.stream import Cut, Warps, stream_balanced
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.schedules.cuda.stream import StreamRule
from tvm_sparse.schedules.cuda.tile_scalar import TileScalarRule

LINEAR = Contraction((2, 20), 384, 70)
STREAMED = Contraction((5,), 2000, 61)
IMAGE = Contraction((1, 5, 6), 20, 36, (3, 3), (1, 1), (1, 1), padded=(5, 6), borders=(1, 1))
"""180 columns: six steps of 32, the last one not full."""

ADDED = re.compile(r"(?<=ld\.global\.nc\.v4\.f32 )(.*), \[(%rd\d+)(?:\+(\d+))?\];")
"""What the second kernel loads: registers, pointer, offset."""


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("engine", [Scalar, TensorCore])
@pytest.mark.parametrize("kind", ["dense", "balanced", "block"])
@pytest.mark.parametrize(
    ("case", "tile"),
    [(LINEAR, ThreadBlockTile(32, 32, 32, 3)), (IMAGE, ThreadBlockTile(16, 16, 32, 2))],
    ids=["linear", "convolution"],
)
def test_parts_equal_the_reference(case, tile, kind, engine, emulator):
    func, right_of = emulated(emulator, kind, engine, case, tile)
    assert right_of(scheduled(func, RULES[engine]()))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_of_kept_tiles(dtype, emulator):
    """Six of twelve tiles are kept in each block of 32 rows, other ones in each."""
    rng = np.random.default_rng(0)
    c = dataclasses.replace(LINEAR, numerics=Numerics.uniform(dtype))
    kept = rng.random((3, 12)).argsort(1) < 6
    matrix = kernels.integers(rng, c.matrix_shape) * kept.repeat(32, 0).repeat(32, 1)[:70]
    x, tile = kernels.integers(rng, c.input_shape), ThreadBlockTile(32, 32, 32, 3)
    right = weights("joint", c, tile, matrix)
    engine = Scalar if dtype == "float32" else TensorCore
    func = scheduled(tiled(c, right, tile, engine()), RULES[engine]())
    arrays = [typed(x, dtype), *right.format.encode(typed(matrix, dtype)).values()]
    found = executed(emulator, func, arrays, c.output_shape, dtype)
    np.testing.assert_array_equal(found, reference(c, x, matrix))


def test_packed_steps_are_equally_many_in_each_part():
    tile = ThreadBlockTile(32, 32, 32, 5)
    format = TileBanksFormat(70, 384, keep=8, bank=32, lanes=32, step=32)
    with pytest.raises(UnsupportedError, match="12 steps in 5 parts"):
        _ = BalancedOperand(format, tile).columns


def ordered(emulator, change=str, values=(2.0**24, 1, 1)):
    """Sums of four parts, in fp32: 2^24, 1, 1, 0, which depends on the order."""
    c = Contraction((16,), 128, 32)
    matrix = np.zeros(c.matrix_shape, np.float32)
    matrix[:, 0], matrix[:, 40], matrix[:, 70] = values
    tile = ThreadBlockTile(16, 32, 32, 4)
    right = weights("dense", c, tile, matrix)
    func = scheduled(tiled(c, right, tile, Scalar()), TileScalarRule())
    arrays = [np.ones(c.input_shape, np.float32), *right.format.encode(matrix).values()]
    return executed(emulator, func, arrays, c.output_shape, c.dtype, change=change)


@needs_nvrtc
def test_parts_are_added_in_ascending_order(emulator):
    # 2^24 + 1 is no fp32 number; 1 + 1 + 2^24 is.
    np.testing.assert_array_equal(ordered(emulator), 2.0**24)


@needs_nvrtc
def test_another_order_would_be_noticed(emulator):
    def backwards(text):
        places = [match.group(3) or "0" for match in ADDED.finditer(text)]
        assert len(places) == 4
        return ADDED.sub(lambda m: f"{m.group(1)}, [{m.group(2)}+{places.pop()}];", text)

    np.testing.assert_array_equal(ordered(emulator, backwards), 2.0**24 + 2)


@needs_nvrtc
@pytest.mark.parametrize(("lost", "left"), [(0, 6), (1, 5), (2, 3)])
def test_a_lost_partial_sum_would_be_noticed(lost, left, emulator):
    """The last part, which is zero, is added in the place of another one."""

    def losing(text):
        places = [match.group(3) or "0" for match in ADDED.finditer(text)]
        places[lost] = places[-1]
        turn = iter(places)
        return ADDED.sub(lambda m: f"{m.group(1)}, [{m.group(2)}+{next(turn)}];", text)

    np.testing.assert_array_equal(ordered(emulator, losing, (1, 2, 4)), left)


@needs_nvrtc
def test_a_partial_sum_that_nobody_stores_is_found(emulator):
    stored = re.compile(r"st\.global\.v4\.f32 .*;")
    with pytest.raises(AssertionError, match="uninitial"):
        ordered(emulator, lambda text: stored.sub("", text, count=1))


@needs_nvrtc
def test_results_are_the_same_again(emulator):
    rng = np.random.default_rng(0)
    c, tile = dataclasses.replace(LINEAR, lead=(16,)), ThreadBlockTile(16, 32, 32, 4)
    matrix = rng.standard_normal(c.matrix_shape, np.float32)
    right = weights("dense", c, tile, matrix)
    func = scheduled(tiled(c, right, tile, Scalar()), TileScalarRule())
    x = rng.standard_normal(c.input_shape, np.float32)
    arrays = [x, *right.format.encode(matrix).values()]
    first, second = (executed(emulator, func, arrays, c.output_shape, c.dtype) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, x @ matrix.T, rtol=0, atol=1e-3)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("engine", "kind"), [(Scalar, "balanced"), (TensorCore, "dense")])
def test_random_schedules_equal_the_reference(engine, kind, emulator):
    func, right_of = emulated(emulator, kind, engine, LINEAR, ThreadBlockTile(32, 32, 32, 3))
    found = space(func, RULES[engine]())
    assert source(found.variants[0].mod["main"]) == source(scheduled(func, RULES[engine]()))
    for schedule in samples(found, 2):
        assert right_of(schedule.mod["main"])


@needs_nvrtc
def test_wide_tiles_in_parts_are_lean():
    c = Contraction((32,), 8192, 8192, numerics=Numerics.uniform("float16"))
    tile = ThreadBlockTile(32, 128, 64, 4)
    func = tiled(c, weights("dense", c, tile, None), tile, TensorCore())
    assert_lean(scheduled(func, RULES[TensorCore]()), "sm_90", registers=72)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("keep", "parts"),
    # Parts of whole banks; and parts of eight slots, which end inside of a bank's five.
    [(8, 4), (5, 3)],
)
def test_streams_in_parts_equal_the_reference(keep, parts, dtype, emulator):
    rng = np.random.default_rng(0)
    c = dataclasses.replace(STREAMED, numerics=Numerics.uniform(dtype, "float32"))
    kept = rng.random((61, 128, 16)).argsort(2).argsort(2) < keep
    matrix = kernels.integers(rng, c.matrix_shape) * kept.reshape(61, 2048)[:, :2000]
    x = kernels.integers(rng, c.input_shape)
    format = LaneBanksFormat(61, 2000, keep, 16, 2, most=8)
    assert format.chunks % parts == 0
    func = scheduled(stream_balanced(c, format, Warps(4, 2, parts)), StreamRule())
    arrays = [typed(x, dtype), *format.encode(typed(matrix, dtype)).values()]
    found = executed(emulator, func, arrays, c.output_shape)
    np.testing.assert_array_equal(found, reference(c, x, matrix))


@needs_nvrtc
def test_random_schedules_of_streams_in_parts(emulator):
    rng = np.random.default_rng(0)
    matrix, x = kernels.integers(rng, (61, 2000), 0.75), kernels.integers(rng, (5, 2000))
    format = dataclasses.replace(LaneBanksFormat.of(matrix), most=8)
    parts = max(n for n in range(1, 9) if format.chunks % n == 0)
    func = stream_balanced(STREAMED, format, Warps(4, 2, parts))
    arrays = [x, *format.encode(matrix).values()]
    assert parts > 1
    for schedule in samples(space(func, StreamRule()), 2):
        found = executed(emulator, schedule.mod["main"], arrays, STREAMED.output_shape)
        np.testing.assert_array_equal(found, reference(STREAMED, x, matrix))


def test_a_thread_block_with_rows_of_two_parts_is_not_feasible():
    """It would stage the activations of both: an H200 refused such candidates of fc6."""
    format = LaneBanksFormat(61, 2000, 8, 16, 2, most=8)
    func = stream_balanced(STREAMED, format, Warps(4, 2, 4))
    found = space(func, StreamRule())
    (rows, *_), *others = found.default.values
    assert rows * 4 * 2 == 4 * 64

    def allowed(*values):
        point = dataclasses.replace(found.default, values=(values, *others))
        return found.rule.feasible(found.schedule(point))

    assert allowed(4, 16, 4)
    assert not allowed(2, 32, 4)


def test_parts_of_streams_have_equally_many_chunks():
    format = LaneBanksFormat(61, 2000, 8, 16, 2, most=8)
    with pytest.raises(UnsupportedError, match="4 chunks in 3 parts"):
        Cut(format, Warps(4, 2, 3))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_network_keeps_partial_sums_in_planned_memory(dtype):
    """The middle layer lies in a captured graph; its bias and ReLU are in the second kernel."""
    behind = nn.Linear(32, 2048), nn.Hardtanh(0, 2)
    model = integers(nn.Sequential(*behind, nn.Linear(2048, 64), nn.ReLU(), nn.Linear(64, 9)))
    with using(Mends(parts=4)):
        check(model.to(dtype), sample((16, 32), dtype), {"2": "dense"})
