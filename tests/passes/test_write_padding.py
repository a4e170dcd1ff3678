"""WritePadding: the copy goes away where it can, and the numbers stay the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import tirx

import tvm_sparse as ts
from tests.kernels import host, integers
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.passes import on_cpus
from tvm_sparse.passes.finish.write_padding import bordered
from tvm_sparse.program import compiler
from tvm_sparse.schedules.build import build_scheduled, scheduled
from tvm_sparse.schedules.cpu import cores

CONFIG = ts.Config(measure=False, tuned=False)


class Chain(nn.Module):
    """A first layer, then one that pads; ``twice`` reads the first one's result again."""

    def __init__(self, first: nn.Module, second: nn.Module, twice: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.twice = first, second, twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return self.second(y) + y if self.twice else self.second(y)


def kernels(library: ts.compiler.Library) -> list[str]:
    return [k.function for k in library.kernels]


def exact(model: nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return copy.deepcopy(model).double()(x.double()).numpy()


@pytest.mark.grid
@pytest.mark.parametrize("size", [7, 18])
@pytest.mark.parametrize(
    "first, second",
    [
        (nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)),
        (nn.Conv2d(16, 32, 3), nn.Conv2d(32, 32, 5, padding=2, stride=2, groups=32)),
        (nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 16, (3, 1), padding=(1, 0))),
        (nn.Conv2d(16, 24, 1), nn.Conv2d(24, 16, (1, 5), padding=(0, 2))),
        (nn.Sequential(nn.Conv2d(16, 32, 1), nn.MaxPool2d(2)), nn.Conv2d(32, 16, 3, padding=1)),
    ],
)
def test_the_first_layer_writes_the_borders_of_the_second(first, second, size):
    model, x = Chain(first, second).eval(), torch.randn(2, 16, size, size)
    library = ts.compile(model, (x,), config=CONFIG)
    assert sum("bordered" in k for k in kernels(library)) == 1
    assert not any(k.startswith("pad") for k in kernels(library))
    assert all(k.rule for k in library.kernels)
    got = [library(x).numpy() for _ in range(2)]  # borders are zeroed again
    for y in got:
        np.testing.assert_allclose(y, exact(model, x), atol=2e-5)


def test_what_others_read_too_is_copied():
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, padding=1), twice=True).eval()
    x = torch.randn(1, 16, 8, 8)
    library = ts.compile(model, (x,), config=CONFIG)
    assert not any("bordered" in k for k in kernels(library))
    np.testing.assert_allclose(library(x).numpy(), exact(model, x), atol=2e-5)


def test_symbolic_batch():
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)).eval()
    x = torch.randn(3, 16, 8, 8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=8)},))
    library = ts.compile(program, config=CONFIG)
    assert any("bordered" in k for k in kernels(library))
    for batch in (1, 3):
        y = library(x[:batch]).numpy()
        np.testing.assert_allclose(y, exact(model, x)[:batch], atol=2e-5)


def test_open_kernels_that_nothing_calls_are_not_built(monkeypatch):
    """Versions of a kernel were functions of their own for TVM, which keeps such."""
    built, assemble = [], compiler.assemble

    def seen(mod, *args, **kwargs):
        built.extend(v.name_hint for v, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
        return assemble(mod, *args, **kwargs)

    monkeypatch.setattr(compiler, "assemble", seen)
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)).eval()
    shapes = ({axis: torch.export.Dim(f"n{axis}", min=2, max=40) for axis in (0, 2, 3)},)
    x = torch.rand(2, 16, 12, 12)
    library = ts.compile(model, (x,), dynamic_shapes=shapes, config=CONFIG)
    assert [name for name in built if name.endswith("_bordered")]
    assert {name for name in built if "conv" in name} <= set(kernels(library))
    np.testing.assert_allclose(library(x), exact(model, x), atol=2e-5)


@pytest.mark.grid
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_functions_of_one_symbol_keep_it(layers):
    """Bordered and plain kernels of one loop nest, with buffers of the open batch inside."""
    steps = [nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()) for _ in range(layers)]
    model = nn.Sequential(*steps, nn.MaxPool2d(2)).eval()
    x = torch.rand(2, 32, 32, 32)
    library = ts.compile(ts.load(model, (x,), dynamic_batch=True), config=CONFIG)
    for batch in (1, 2):
        np.testing.assert_allclose(library(x[:batch]), exact(model, x)[:batch], atol=2e-5)


def test_same_numbers_as_with_copies(monkeypatch):
    model = Chain(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3, padding=1)).eval()
    x = torch.randn(1, 16, 9, 9)
    fused = ts.compile(model, (x,), config=CONFIG)(x)
    monkeypatch.setattr(on_cpus, "WritePadding", lambda rules, report: on_cpus.FoldConstants())
    library = ts.compile(model, (x,), config=CONFIG)
    assert any(k.startswith("pad") for k in kernels(library))
    assert torch.equal(fused, library(x))


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2", "3"])
@pytest.mark.parametrize("widths", [(1, 1, 1, 1), (2, 0, 1, 3), (0, 2, 0, 0)])
@pytest.mark.parametrize("height", [3, 6, 7])
def test_threads_share_the_borders(height, widths, threads, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    monkeypatch.setattr(cores, "PARALLEL_FLOPS", 0)
    shape, columns = (2, height, 14), 32
    layer = Contraction(shape, columns, 48, (1, 1), (1, 1), (1, 1), shape[1:])
    rng = np.random.default_rng(0)
    matrix, format = integers(rng, layer.matrix_shape), dense_format(layer, host())
    x = integers(rng, layer.input_shape)
    func = scheduled(dense(layer, format, host()), host())["main"]
    outer = bordered(func, (*widths, 5))
    assert not isinstance(outer.body.block.body, tirx.SeqStmt) or threads == "1"
    top, left, bottom, right = widths
    expected = reference(layer, x, matrix)
    around = ((0, 0), (top, bottom), (left, right), (0, 0))
    expected = np.pad(expected, around, constant_values=5)
    module = build_scheduled(tvm.IRModule({"main": outer}), host())
    got = tvm.runtime.tensor(np.full(expected.shape, np.nan, np.float32))
    arrays = [tvm.runtime.tensor(a) for a in (x, *format.encode(matrix).values())]
    module["main"](*arrays, got)
    np.testing.assert_array_equal(got.numpy(), expected)


def test_square_planes_of_one_open_extent():
    """The extent is handed to a function once, though its output has it twice."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1)]
    model = nn.Sequential(*layers).eval().requires_grad_(False)
    side = torch.export.Dim("side", min=2, max=40)
    shapes = ({2: side, 3: side},)
    library = ts.compile(model, (torch.rand(1, 3, 8, 8),), dynamic_shapes=shapes, config=CONFIG)
    for size in (2, 9, 40):
        x = torch.rand(1, 3, size, size)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
