"""Tiled contractions against the naive reference, executed, and their machine code."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import tvm
from tvm.script.ir_builder import tirx as T

from tests.cuda.kernels import assert_lean, executed, needs_nvrtc, scheduled, target, typed
from tests.cuda.use import assert_equal_on_gpu
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.kept_tiles import KeptTilesFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda import ptx
from tvm_sparse.ops.cuda.balanced_weights import BalancedOperand
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.dense_weights import DenseOperand
from tvm_sparse.ops.cuda.joint_weights import JointOperand
from tvm_sparse.ops.cuda.multiply import NEIGHBOURS, Scalar, TensorCore
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled, unflat
from tvm_sparse.patterns.block import Block
from tvm_sparse.schedules.build import build_scheduled
from tvm_sparse.schedules.cuda.tile_scalar import TileScalarRule
from tvm_sparse.schedules.cuda.tile_tensor_core import TileTensorCoreRule, default_warps

LINEAR = Contraction((2, 50), 72, 70)
STRIDED = Contraction((2, 4, 4), 16, 40, (3, 3), (2, 2), (1, 1), padded=(8, 8), borders=(1, 1))
DILATED = Contraction((1, 5, 6), 3, 20, (3, 2), (1, 1), (2, 3), padded=(9, 9))
CASES = {
    "linear": (LINEAR, ThreadBlockTile(32, 32, 32)),
    "strided": (STRIDED, ThreadBlockTile(16, 32, 64)),
    "dilated": (DILATED, ThreadBlockTile(32, 16, 32)),
}
UNEVEN = {n: (Contraction((40,), n, 33), ThreadBlockTile(32, 32, 48)) for n in (80, 96)}
RULES = {Scalar: TileScalarRule, TensorCore: TileTensorCoreRule}


def masked(rng, kind, c, tile, across=16):
    """A weight with zeros: whole blocks of ``across`` columns, or anywhere."""
    dense = integers(rng, c.matrix_shape, 0.7)
    if kind not in ("block", "joint"):
        return dense
    rows, cols = c.matrix_shape
    across = across if kind == "block" else tile.columns
    kept = rng.random((-(-rows // tile.features), -(-cols // across))) < 0.4
    return dense * np.repeat(np.repeat(kept, tile.features, 0), across, 1)[:rows, :cols]


def weights(kind, c, tile, matrix, across=16):
    if kind == "dense":
        return DenseOperand(DenseFormat(*c.matrix_shape, lanes=tile.features), tile)
    if kind == "block":
        return BlockOperand(BlockFormat.of(matrix, Block(tile.features, across), limit=1), tile)
    size = {"lanes": tile.features, "step": tile.columns}
    if c.dtype == "float32":
        size["apart"] = NEIGHBOURS
    if kind == "joint":
        return JointOperand(KeptTilesFormat.of(matrix, **size), tile)
    return BalancedOperand(TileBanksFormat.of(matrix, **size), tile)


def emulated(emulator, kind, engine, c, tile, across=16):
    """A contraction, and what says whether a schedule of it computes the reference."""
    c = dataclasses.replace(
        c, numerics=Numerics.uniform("float32" if engine is Scalar else "float16")
    )
    rng = np.random.default_rng(0)
    matrix, x = masked(rng, kind, c, tile, across), integers(rng, c.input_shape)
    right = weights(kind, c, tile, matrix, across)
    arrays = [typed(x, c.dtype), *right.format.encode(typed(matrix, c.dtype)).values()]

    def right_of(func):
        out = executed(emulator, func, arrays, c.output_shape, c.dtype)
        return np.array_equal(out, reference(c, x, matrix))

    return tiled(c, right, tile, engine()), right_of


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("engine", "case"), [(Scalar, "strided"), (TensorCore, "dilated")])
@pytest.mark.parametrize("kind", ["dense", "balanced", "block", "joint"])
def test_equals_the_reference(kind, engine, case, emulator):
    func, right_of = emulated(emulator, kind, engine, *CASES[case])
    assert right_of(scheduled(func, RULES[engine]()))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("engine", [Scalar, TensorCore])
@pytest.mark.parametrize("columns", [80, 96])
def test_blocks_need_not_divide_a_step(engine, columns, emulator):
    """Steps of 48 columns over blocks of 32; the last block of 80 columns is moved left."""
    func, right_of = emulated(emulator, "block", engine, *UNEVEN[columns], across=32)
    assert right_of(scheduled(func, RULES[engine]()))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("engine", [Scalar, TensorCore])
def test_steps_past_the_end_do_not_make_nan_of_infinities(engine, emulator):
    """The one kept block of 32 columns is two thirds of a step; its weights are all positive."""
    c, tile = UNEVEN[96]
    c = dataclasses.replace(
        c, numerics=Numerics.uniform("float32" if engine is Scalar else "float16")
    )
    matrix = np.zeros(c.matrix_shape, np.float32)
    matrix[:, 64:] = 1
    x = np.ones(c.input_shape, np.float32)
    x[0, 64:] = np.inf
    right = weights("block", c, tile, matrix, across=32)
    func = scheduled(tiled(c, right, tile, engine()), RULES[engine]())
    arrays = [typed(x, c.dtype), *right.format.encode(typed(matrix, c.dtype)).values()]
    found = executed(emulator, func, arrays, c.output_shape, c.dtype)
    assert np.isposinf(found[0]).all()
    np.testing.assert_array_equal(found[1:], 32)


@pytest.mark.grid
@pytest.mark.parametrize("step", [48, 64])
@pytest.mark.parametrize("columns", [80, 96, 1000])
@pytest.mark.parametrize("across", [16, 32, 64])
def test_vectors_of_activations_lie_in_one_block(columns, across, step):
    """TVM refuses vectors that would look up a block for each of their elements.

    Where it cannot tell that a block begins at a vector, it loads element by element: 1000 columns
    end within a block, which is moved left to column 984, 968 or 936.
    """
    c, tile = Contraction((40,), columns, 33), ThreadBlockTile(32, 32, step)
    half = dataclasses.replace(c, numerics=Numerics.uniform("float16"))
    matrix = np.ones(half.matrix_shape, np.float32)
    right = weights("block", half, tile, matrix, across=across)
    func = scheduled(tiled(half, right, tile, TensorCore()), TileTensorCoreRule())
    built = build_scheduled(tvm.IRModule({"main": func}), target("sm_90"))
    text = built.mod.imports[0].inspect_source()
    assert "cp.async" in text
    assert "X_ptr[" not in text


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(
    "tile",
    [ThreadBlockTile(128, 128, 32), ThreadBlockTile(64, 96, 48), ThreadBlockTile(16, 48, 64)],
)
def test_large_tiles_are_lean_too(tile):
    c = Contraction((1000,), 480, 500, numerics=Numerics.uniform("float16"))
    right = weights("dense", c, tile, None)
    func = scheduled(tiled(c, right, tile, TensorCore()), TileTensorCoreRule())
    assert_lean(func, "sm_90", registers=128)


@pytest.mark.slow
@needs_nvrtc
def test_fp32_tiles_are_lean_too():
    c, tile = Contraction((1000,), 480, 500), ThreadBlockTile(128, 128, 32)
    func = scheduled(tiled(c, weights("dense", c, tile, None), tile, Scalar()), TileScalarRule())
    assert_lean(func, "sm_90")


def test_unflat():
    assert unflat(2 * 12 + 3, (5, 3, 4)) == [2, 0, 3]
    assert unflat(61, (5, 3, 4)) == [5, 0, 1]
    assert unflat(7, (9,)) == [7]
    assert unflat(0, ()) == []


@pytest.mark.parametrize(
    ("rows", "features", "warps"),
    [(128, 128, (2, 4)), (64, 64, (1, 4)), (16, 64, (1, 4)), (128, 16, (4, 1)), (16, 16, (1, 1))],
)
def test_warps_share_a_tile_evenly(rows, features, warps):
    chosen = default_warps(rows, features)
    assert (chosen.rows, chosen.features) == warps
    assert rows % (16 * chosen.rows) == features % (16 * chosen.features) == 0


def matrices(tile, form):
    """What ``ldmatrix.x4`` leaves in the registers of 32 lanes (PTX ISA, "ldmatrix")."""
    fragment = np.zeros((32, 8))
    for q in range(4):
        rows = [form.place(8 * q + i) for i in range(8)]
        matrix = np.array([tile[r, c : c + 8] for r, c in rows])
        if form is ptx.Form.RIGHT_TRANSPOSED:
            matrix = matrix.T
        for lane in range(32):
            fragment[lane, 2 * q : 2 * q + 2] = matrix[lane // 4, 2 * (lane % 4) :][:2]
    return fragment


def product(a, b):
    """Two ``mma.m16n8k16`` on fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16")."""
    result = np.zeros((32, 8))
    for half in range(2):
        left, right = np.zeros((16, 16)), np.zeros((16, 8))
        for lane in range(32):
            group, place = lane // 4, 2 * (lane % 4)
            for i in range(8):
                row, k = group + 8 * (i // 2 % 2), place + i % 2 + 8 * (i // 4)
                left[row, k] = a[lane, i]
            for i in range(4):
                right[place + i % 2 + 8 * (i // 2), group] = b[lane, 4 * half + i]
        sums = left @ right
        for lane in range(32):
            group, place = lane // 4, 2 * (lane % 4)
            for i in range(4):
                result[lane, 4 * half + i] = sums[group + 8 * (i // 2), place + i % 2]
    return result


@pytest.mark.parametrize("form", [ptx.Form.RIGHT, ptx.Form.RIGHT_TRANSPOSED])
def test_lane_maps_of_the_tensor_core(form):
    rng = np.random.default_rng(0)
    left, right = rng.integers(-9, 9, (2, 16, 16))
    b = matrices(right if form is ptx.Form.RIGHT else right.T, form)
    sums = product(matrices(left, ptx.Form.LEFT), b)
    expected = left @ right.T
    for lane in range(32):
        for r in range(8):
            row = lane // 4 + 8 * (r // 2 % 2)
            feature = 2 * (lane % 4) + r % 2 + 8 * (r // 4)
            assert sums[lane, r] == expected[row, feature]


@pytest.mark.parametrize("form", list(ptx.Form))
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 128])
def test_fragments_load_without_bank_conflicts(form, columns):
    pitch = -(-(columns - 8) // 32) * 32 + 8  # what storage_align(32, 8) makes of a row
    for q in range(4):
        places = [form.place(8 * q + i) for i in range(8)]
        words = {((r * pitch + c) // 2 + w) % 32 for r, c in places for w in range(4)}
        assert len(words) == 32


def test_declared_names(monkeypatch):
    """A weight's parameters stand in the order in which its format encodes them."""
    c, tile = CASES["linear"]
    matrix = masked(np.random.default_rng(0), "block", c, tile)
    names = {"dense": 1, "balanced": 2, "block": 3, "joint": 3}
    for kind, count in names.items():
        right = weights(kind, c, tile, matrix)
        declared = []
        monkeypatch.setattr(T, "arg", lambda name, buffer, seen=declared: seen.append(buffer))
        right.declare("float32")
        monkeypatch.undo()
        arrays = right.format.encode(matrix).values()
        assert len(declared) == len(arrays) == count


@needs_nvrtc
def test_one_pixel_is_written_by_the_threads_that_hold_it():
    """All axes but the channels have one element: every row of threads would write the output."""
    layer = torch.nn.Conv2d(20, 16, 1).requires_grad_(False)
    for parameter in layer.parameters():
        parameter.copy_(torch.arange(parameter.numel()).view_as(parameter) % 5 - 2)
    layer.weight[1::2] = 0
    assert_equal_on_gpu(layer, torch.arange(20.0).view(1, 20, 1, 1))
