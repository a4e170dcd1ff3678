"""Sums that an engine for tiles makes: exact, on a toy engine here and on AMX where it is."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.integers import as_integers, bytes_of, sparse_bytes
from tests.kernels import host, run
from tests.machines import changed_machine
from tests.tile_unit import TILES as TOY
from tvm_sparse.base.numerics import BFLOATS
from tvm_sparse.machine.x86_amx import AVX512_AMX
from tvm_sparse.ops.contractions.block_tiles import BLOCKS, block_tiles, kept_steps_format
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense_format
from tvm_sparse.ops.contractions.tile_nest import plain, row_bytes, unit_of
from tvm_sparse.ops.contractions.tiles import tiles
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.narrow import stored

needs_amx = pytest.mark.isa("amx-tile", "amx-int8", "amx-bf16", "avx512bf16", "avx512vbmi")


def window(image, channels, features, taps, stride=1, dilation=1):
    n, *plane = image
    taps = (taps,) * len(plane) if isinstance(taps, int) else taps
    lead = [(e - (k - 1) * dilation - 1) // stride + 1 for e, k in zip(plane, taps, strict=True)]
    steps = ((stride,) * len(plane), (dilation,) * len(plane))
    return Contraction((n, *lead), channels, features, taps, *steps, padded=tuple(plane))


CASES = {
    "rows that a tile divides": Contraction((64,), 64, 32),
    "a partial tile": Contraction((37,), 48, 80),
    "a single tile": Contraction((5,), 128, 16),
    "rows of several axes": Contraction((2, 3, 7), 36, 48),
    "many features": Contraction((9,), 16, 16 * 45),
    "weights that pass in parts": Contraction((37,), 1024, 1024),
    "points": window((2, 7, 7), 32, 48, 1),
    "a window": window((2, 9, 11), 16, 32, 3),
    "strides": window((1, 17, 15), 24, 16, 3, stride=2),
    "dilation": window((1, 12, 13), 20, 32, 3, dilation=2),
    "a wide window": window((1, 11, 40), 8, 16, (1, 5)),
    "a line": window((2, 41), 32, 16, 3),
}


def check(c, target):
    rng = np.random.default_rng(0)
    matrix = sparse_bytes(rng, c.matrix_shape, 0.0)
    x, inner = bytes_of(rng, c), dense_format(c, target)
    arrays = stored(inner, c, target, in_tiles=True).encode(matrix)
    func = tiles(c, inner, target)
    got = run(func, [x, *arrays.values()], c.output_shape, target, c.out_dtype)
    np.testing.assert_array_equal(got, reference(c, x, matrix))


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("activation", "zero_point"), [("uint8", 0), ("uint8", 7), ("int8", -3)])
def test_sums_by_a_toy_engine_are_exact(name, activation, zero_point):
    with changed_machine(tiles=TOY):
        c = as_integers(CASES[name], activation, zero_point)
        assert plain(c, host())
        check(c, host())


@needs_amx
@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("activation", "zero_point"), [("uint8", 0), ("uint8", 7), ("int8", -3)])
def test_sums_by_amx_are_exact(name, activation, zero_point):
    check(as_integers(CASES[name], activation, zero_point), host())


def in_blocks(rng, matrix, step):
    """Zero most blocks of 16 features x ``step`` columns, all of the first features."""
    rows, cols = matrix.shape
    kept = rng.random((rows // 16, cols // step)) < 0.4
    kept[0] = False
    return matrix * np.kron(kept, np.ones((16, step), matrix.dtype))


def check_blocks(c, target, shared):
    rng = np.random.default_rng(0)
    unit = unit_of(c, target)
    step = unit.step_of(row_bytes(c))
    matrix = in_blocks(rng, sparse_bytes(rng, c.matrix_shape, 0.0), step)
    format = kept_steps_format(c, Scan(matrix), target, step, shared)
    held = stored(format, c, target, in_tiles=True)
    x, arrays = bytes_of(rng, c), held.encode(matrix)
    np.testing.assert_array_equal(held.decode(arrays), matrix)
    got = run(
        block_tiles(c, format, target), [x, *arrays.values()], c.output_shape, target, c.out_dtype
    )
    np.testing.assert_array_equal(got, reference(c, x, matrix))


SHARED = [(name, n) for name, c in CASES.items() for n in BLOCKS if c.features % (16 * n) == 0]


@pytest.mark.grid
@pytest.mark.parametrize(("name", "shared"), SHARED)
@pytest.mark.parametrize(("activation", "zero_point"), [("uint8", 7), ("int8", -3)])
def test_sums_of_kept_blocks_by_a_toy_engine_are_exact(name, shared, activation, zero_point):
    with changed_machine(tiles=TOY):
        check_blocks(as_integers(CASES[name], activation, zero_point), host(), shared)


@needs_amx
@pytest.mark.grid
@pytest.mark.parametrize(("name", "shared"), SHARED)
@pytest.mark.parametrize(("activation", "zero_point"), [("uint8", 7), ("int8", -3)])
def test_sums_of_kept_blocks_by_amx_are_exact(name, shared, activation, zero_point):
    check_blocks(as_integers(CASES[name], activation, zero_point), host(), shared)


@needs_amx
@pytest.mark.grid
@pytest.mark.parametrize("numerics", BFLOATS, ids=str)
@pytest.mark.parametrize("name", ["a partial tile", "a window"])
def test_kept_blocks_of_bfloat16_by_amx_are_exact_on_small_integers(name, numerics):
    c, target = replace(CASES[name], numerics=numerics), host()
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, c.input_shape).astype(ml_dtypes.bfloat16)
    whole = rng.integers(-2, 3, c.matrix_shape).astype(np.float32)
    matrix = in_blocks(rng, whole, 16)
    format = kept_steps_format(c, Scan(matrix), target, 32, 1)
    arrays = stored(format, c, target, in_tiles=True).encode(matrix)
    func = block_tiles(c, format, target)
    got = run(func, [x, *arrays.values()], c.output_shape, target, c.out_dtype)
    expected = reference(c, x, matrix.astype(ml_dtypes.bfloat16)).astype(c.out_dtype)
    np.testing.assert_array_equal(got, expected)


def test_blocks_of_zeros_are_left_out_where_an_engine_multiplies_tiles():
    rng = np.random.default_rng(0)
    with changed_machine(tiles=TOY):
        c = as_integers(Contraction((64,), 64, 64))
        matrix = in_blocks(rng, sparse_bytes(rng, c.matrix_shape, 0.0), 16)
        found = [k for k in sparse_candidates(c, Scan(matrix), host()) if not isinstance(k, str)]
        (tiled,) = (k for k in found if k.name == "block_tiles")
        kept = np.any(matrix.reshape(4, 16, 4, 16), axis=(1, 3))
        assert tiled.work == kept.mean()
        full = sparse_bytes(rng, c.matrix_shape, 0.0)
        full[full == 0] = 1
        found = sparse_candidates(c, Scan(full), host())
        assert "block_tiles" not in [k.name for k in found if not isinstance(k, str)]


@needs_amx
@pytest.mark.grid
@pytest.mark.parametrize("numerics", BFLOATS, ids=str)
@pytest.mark.parametrize("name", ["a partial tile", "a window"])
def test_sums_of_bfloat16_by_amx_are_exact_on_small_integers(name, numerics):
    c, target = replace(CASES[name], numerics=numerics), host()
    rng = np.random.default_rng(0)
    x, matrix = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in (c.input_shape, c.matrix_shape)
    )
    inner = dense_format(c, target)
    values = inner.encode(matrix)["values"].view(np.uint16)
    found = np.zeros(c.output_shape, c.out_dtype)
    got = run(tiles(c, inner, target), [x, values], found.shape, target, c.out_dtype)
    np.testing.assert_array_equal(got, reference(c, x, matrix).astype(c.out_dtype))


@pytest.mark.parametrize(
    ("c", "fit"),
    [
        (Contraction((64,), 64, 32), True),
        (Contraction((64,), 63, 32), False),
        (Contraction((64, 8, 8), 32, 32, (3, 3), (1, 1), (1, 1), (8, 8), borders=(1, 1)), False),
        (window((1, 9, 9), 8, 64, 3), True),
        (replace(window((1, 9, 9), 8, 64, 3), groups=2), False),
    ],
)
def test_what_tiles_cannot_do_is_left_out(c, fit):
    with changed_machine(tiles=TOY):
        assert plain(as_integers(c), host()) == fit
        names = [candidate.name for candidate in dense_candidates(as_integers(c), host())]
        assert ("tiles" in names) == fit


def test_floats_and_few_rows_have_no_tiles():
    with changed_machine(tiles=TOY):
        few = as_integers(Contraction((1,), 64, 32))
        for c in (few, Contraction((64,), 64, 32)):
            assert [k.name for k in dense_candidates(c, host())] == ["dense"]


def test_code_for_amx_multiplies_tiles():
    target, c = host("sapphirerapids"), as_integers(Contraction((64,), 64, 32))
    built = build_function(tiles(c, dense_format(c, target), target), target)
    assembly = built.inspect_source("asm")
    assert "tdpbusd" in assembly and "ldtilecfg" in assembly and "tilerelease" in assembly
    format = kept_steps_format(c, Scan(np.eye(*c.matrix_shape, dtype=np.int8)), target, 16, 2)
    built = build_function(block_tiles(c, format, target), target)
    assert "tdpbusd" in built.inspect_source("asm")
    assert dict(AVX512_AMX.tiles).keys() == {"uint8", "int8", "bfloat16"}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.wide = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.point = nn.Conv2d(32, 32, 1)
        self.last = nn.Linear(32, 48)

    def forward(self, x):
        y = self.wide(torch.relu(self.first(x)))
        y = torch.relu(y + self.point(torch.relu(y)))
        return self.last(y.permute(0, 2, 3, 1))


def blocks_of_zeros(model):
    """Zero every other block of 16 features x 16 channels of the layers behind the first."""
    for layer in (model.wide, model.point, model.last):
        weight = layer.weight.detach().numpy()
        down, across = np.indices((weight.shape[0] // 16, weight.shape[1] // 16))
        kept = np.kron((down + across) % 2 == 0, np.ones((16, 16)))
        weight *= kept.reshape(kept.shape + (1,) * (weight.ndim - 2)).astype(np.float32)


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("chosen", ["tiles", "block_tiles"])
def test_a_network_of_open_planes_gives_the_bytes_of_the_direct_sum(monkeypatch, threads, chosen):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    torch.manual_seed(0)
    dims = ({0: Dim("n", max=4), 2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)},)
    x = torch.randn(2, 3, 16, 20)
    model = Network().eval()
    blocks_of_zeros(model)
    quantized = ts.quantize(model, [(x,)], dynamic_shapes=dims)
    config = ts.Config(measure=False, cache=False)
    with changed_machine(tiles=TOY):
        force = dict.fromkeys(("wide*", "point*", "last*"), chosen)
        found = ts.compile(quantized, (x,), config=replace(config, force=force))
    direct = ts.compile(quantized, (x,), config=replace(config, force={"*": "dense"}))
    assert sum(d.chosen == chosen for d in found.decisions) == 3
    for shape in ((2, 3, 16, 20), (1, 3, 4, 5), (3, 3, 33, 64), (1, 3, 63, 18)):
        x = torch.randn(shape)
        assert np.array_equal(found(x), direct(x))
