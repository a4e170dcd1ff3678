"""Weights are fetched a feature tile ahead: every line of it, and only where that pays."""

from __future__ import annotations

import itertools
import operator
import re

import numpy as np
import pytest
import torch
from torch import nn
from tvm import ir, s_tir, tirx

import tvm_sparse as ts
from tests.integers import as_integers
from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.base.targets import parse_target
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.machine.record import Caches
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.batch_matmul import View, batch_matmul
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.schedules.blocks import VECTORIZED, nodes
from tvm_sparse.schedules.build import build_function, scheduled
from tvm_sparse.schedules.cpu.fetch_ahead import FETCH, LINE, FetchAhead

ROWS = Contraction((16,), 128, 128)
WINDOW = Contraction((1, 8, 4), 64, 128, (1, 2), (1, 1), (1, 1), padded=(8, 5))
SMALL = Caches(first=1 << 8)
OPERATIONS = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Min: min,
}


def dense_layer(contraction):
    return dense(contraction, dense_format(contraction, host()), host())


def balanced_layer(contraction):
    bank, depth = (64, 4) if contraction.dtype == "uint8" else (16, 1)
    taps = int(np.prod(contraction.taps))
    shape = contraction.matrix_shape
    format = BalancedFormat(*shape, bank // 4, bank=bank, segments=taps, depth=depth)
    return balanced(contraction, format, host())


def number(expr, at):
    """Return the integer that ``expr`` is for the values ``at`` of variables."""
    if isinstance(expr, tirx.IntImm):
        return int(expr)
    if isinstance(expr, tirx.Ramp):
        return number(expr.base, at)
    if isinstance(expr, tirx.Cast):
        return number(expr.value, at)
    if type(expr) in OPERATIONS:
        return OPERATIONS[type(expr)](number(expr.a, at), number(expr.b, at))
    return at[expr]


def line(load, at):
    """Return the name of a load's buffer, and the cache line that it begins in."""
    offset = 0
    for index, extent in zip(load.indices, load.source.shape, strict=True):
        offset = offset * int(extent) + number(index, at)
    return load.source.name, offset * np.dtype(str(load.source.ty.dtype)).itemsize // LINE


class Program:
    """A scheduled function that fetches ahead: its loops, what it reads, what it fetches."""

    def __init__(self, func, caches=SMALL):
        body = FetchAhead(caches)(scheduled(func, host()))["main"].body
        realizes = nodes(body, s_tir.SBlockRealize)
        update = next(r for r in realizes if r.block.name_hint in {"contract", "contract_update"})
        scalar = (x for x in nodes(body, tirx.For) if int(x.kind) != VECTORIZED)
        around = (x for x in scalar if update in nodes(x, s_tir.SBlockRealize))
        self.loops = sorted(around, key=lambda loop: -len(nodes(loop.body, tirx.For)))
        calls = [node.value for node in nodes(body, tirx.Evaluate)]
        fetches = [c for c in calls if getattr(c.args[0], "value", None) == FETCH]
        self.fetches = [call.args[1].args[0] for call in fetches]
        self.lanes = [x for x in nodes(body, tirx.For) if int(x.kind) == VECTORIZED]
        self.update = update

    def tiles(self):
        """Return for each fetched array its tiles in order, as lines read and lines fetched.

        A tile is what one turn of the outermost loop reads, or of two where that reads everything.
        """
        names = {load.source.name for load in self.fetches}
        block, found = self.update.block, {name: {} for name in names}
        loads = [x for x in nodes(block.body, ir.TensorLoad) if x.source.name in names]
        variables = [loop.loop_var for loop in self.loops]
        lanes = {loop.loop_var: 0 for loop in self.lanes}
        for turns in itertools.product(*(range(int(x.extent)) for x in self.loops)):
            at = lanes | dict(zip(variables, turns, strict=True))
            values = zip(block.iter_vars, self.update.iter_values, strict=True)
            inside = {axis.var: number(value, at) for axis, value in values}
            lines = [line(load, at | inside) for load in loads], [line(x, at) for x in self.fetches]
            for name in names:
                for outer in (1, 2):
                    tile = found[name].setdefault(turns[:outer], (set(), set()))
                    for touched, together in zip(lines, tile, strict=True):
                        together.update(number_ for array, number_ in touched if array == name)
        return {name: _joined(turns, 1) or _joined(turns, 2) for name, turns in found.items()}


def _joined(turns, outer):
    """Return what is fetched while the same lines are read, nothing if all are read at once."""
    tiles = {}
    for read, fetched in (tile for turn, tile in turns.items() if len(turn) == outer):
        tiles.setdefault(frozenset(read), set()).update(fetched)
    return tiles if len(tiles) > 1 else {}


@pytest.mark.grid(16)
@pytest.mark.parametrize("layer", [dense_layer, balanced_layer], ids=lambda f: f.__name__)
@pytest.mark.parametrize("contraction", [ROWS, WINDOW], ids=["rows", "window"])
@pytest.mark.parametrize("numerics", ["float32", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_each_tile_fetches_the_next_one(layer, contraction, numerics, threads, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    contraction = contraction if numerics == "float32" else as_integers(contraction)
    program = Program(layer(contraction))
    assert program.fetches
    for tiles in program.tiles().values():
        read = list(tiles)
        assert read
        for tile, following in itertools.pairwise([*read, read[-1]]):
            assert tiles[tile] == following


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (1, 4096),  # weights are used up as fast as they come
        (40, 16),  # the first cache holds them
        (4096, 1024),  # so many rows pass a tile that its first pass does not matter
    ],
)
def test_what_gains_nothing_stays(rows, columns):
    layer = dense_layer(Contraction((rows,), columns, 96))
    assert not Program(layer, Caches()).fetches


def test_tiles_that_the_second_cache_does_not_hold_stay():
    layer = dense_layer(Contraction((40,), 4096, 96))
    assert not Program(layer, Caches(second=64 << 10)).fetches
    assert Program(layer, Caches(second=8 << 20)).fetches


def test_each_image_of_a_batch_fetches(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    images = Contraction((9, 4, 8), 1024, 128, (1, 1), (1, 1), (1, 1), padded=(4, 8))
    program = Program(dense_layer(images), Caches())
    assert int(program.loops[0].extent) == 9
    assert program.fetches


def test_products_of_activations_do_not():
    left, right, result = (View(shape) for shape in ((4, 64, 512), (4, 512, 64), (4, 64, 64)))
    assert not Program(batch_matmul(left, right, result, host()), SMALL).fetches


def test_machine_code_fetches():
    code = build_function(balanced_layer(Contraction((40,), 1024, 96)), host())
    assert "prefetch" in code.inspect_source("asm")


@pytest.mark.parametrize("threads", [1, 4])
def test_sums_stay_in_registers_whoever_shares_the_layer(threads, monkeypatch):
    """Where LLVM thinks that a fetch may read the sums, it stores all of them in each step."""
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    target = parse_target("cpu:znver4").target
    layer = Contraction((128,), 768, 3072)
    func = dense(layer, dense_format(layer, target), target)
    code = build_function(func, target).inspect_source("asm")
    assert "prefetch" in code
    products, stores = (len(re.findall(f"{name}.*zmm", code)) for name in ("vfmadd", "vmovups"))
    assert stores < products


def test_results_are_the_same():
    rng = np.random.default_rng(0)
    contraction = Contraction((40,), 1024, 96)
    matrix = keep_of_bank(rng, contraction.matrix_shape, 4)
    x = integers(rng, contraction.input_shape)
    format = BalancedFormat.of(matrix)
    func = balanced(contraction, format, host())
    assert Program(func, Caches()).fetches
    got = run(func, [x, *format.encode(matrix).values()], contraction.output_shape)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.grid
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_a_symbolic_number_of_rows(rows):
    torch.manual_seed(0)
    model = nn.Linear(1024, 96).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (torch.rand(8, 1024),), dynamic_shapes=({0: batch},))
    library = ts.compile(program)
    x = torch.rand(rows, 1024)
    torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-4)
