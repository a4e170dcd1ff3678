import numpy as np
import pytest
import torch
from torch.export import Dim

import tvm_sparse as ts
from tests.cuda import kernels
from tests.cuda.kernels import executed, needs_nvrtc, target, typed
from tvm_sparse.base.numerics import BYTE_PRODUCTS, Numerics, samples
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.cuda.product import neighbours, product
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.schedules.cuda.tile_scalar import TileScalarRule
from tvm_sparse.schedules.cuda.tile_tensor_core import TileBytesRule, TileTensorCoreRule
from tvm_sparse.selection.cuda.product_choice import MOST_BLOCKS, product_tile
from tvm_sparse.testing import emulate

DTYPES = ("float32", "float16", "bfloat16")


def heads(batch, length, count, width, *, transposed=False):
    """The heads of ``(batch, length, count * width)``, the last two axes swapped or not."""
    axes = (0, 2, 3, 1) if transposed else (0, 2, 1, 3)
    steps = (("reshape", (batch, length, count, width)), ("permute_dims", axes))
    return View((batch, length, count * width), steps)


def plain(*shape):
    return View(shape)


CASES = {
    "whole tiles": (plain(2, 64, 32), plain(2, 32, 64), (2,)),
    "odd": (plain(2, 3, 37, 41), plain(2, 3, 41, 50), (2, 3)),
    "one row": (plain(3, 1, 7), plain(3, 7, 5), (3,)),
    "no batch": (plain(20, 24), plain(24, 40), ()),
    "scores": (heads(2, 37, 3, 16), heads(2, 50, 3, 16, transposed=True), (2, 3)),
    "mixed values": (plain(2, 3, 37, 50), heads(2, 50, 3, 16), (2, 3)),
    "odd heads": (heads(1, 20, 3, 5), heads(1, 17, 3, 5, transposed=True), (1, 3)),
    "shared by the batch": (plain(4, 2, 20, 16), plain(2, 16, 24), (4, 2)),
    "shared by heads": (plain(2, 4, 20, 16), plain(2, 1, 16, 24), (2, 4)),
    "left shared": (plain(1, 20, 16), plain(3, 16, 24), (3,)),
}


def seen(view, array):
    return array[tuple(view.source(np.indices(view.shapes[-1])))]


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_products_are_exact(emulator, case, dtype):
    left, right, lead = CASES[case]
    rule = TileScalarRule() if dtype == "float32" else TileTensorCoreRule()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, view.shape) for view in (left, right))
    wanted = seen(left, a) @ seen(right, b)
    func = product(left, right, lead, Numerics.uniform(dtype), ThreadBlockTile(32, 32, 16))
    operands = [typed(a, dtype), typed(b, dtype)]
    got = executed(emulator, kernels.scheduled(func, rule), operands, wanted.shape, dtype)
    np.testing.assert_array_equal(got, typed(wanted, dtype).astype("f4"))


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("numerics", BYTE_PRODUCTS, ids=str)
@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_products_of_bytes_are_exact(emulator, case, turn, numerics):
    """Also where bytes of the right operand do not lie features first."""
    left, right, lead = CASES[case]
    *batch, length, features = right.shapes[-1]
    last = range(len(batch))
    turned = (*last, len(batch) + 1, len(batch))
    right = View((*batch, features, length), (("permute_dims", turned),)) if turn else right
    rng = np.random.default_rng(0)
    a = samples(rng, left.shape, numerics.activation)
    b = samples(rng, right.shape, numerics.weight)
    wanted = seen(left, a).astype("i4") @ seen(right, b).astype("i4")
    func = product(left, right, lead, numerics, ThreadBlockTile(32, 32, 32))
    scheduled = kernels.scheduled(func, TileBytesRule())
    got = executed(emulator, scheduled, [a, b], wanted.shape, "int32")
    np.testing.assert_array_equal(got, wanted)


def test_loads_are_as_wide_as_neighbours_and_alignment_allow():
    assert neighbours(heads(2, 8, 3, 16), -1, "float16") == 8
    assert neighbours(heads(2, 8, 3, 16), -1, "float32") == 4
    assert neighbours(heads(2, 8, 3, 16), -2, "float16") == 1
    assert neighbours(heads(2, 8, 3, 12), -1, "float16") == 4
    assert neighbours(heads(2, 8, 3, 5, transposed=True), -2, "float16") == 1
    cut = View((2, 8, 48), (("strided_slice", (0, 0, 4, 2, 8, 32)),))
    assert neighbours(cut, -1, "float16") == 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 20, 197])
@pytest.mark.parametrize("features", [1, 64, 197])
def test_tiles_fill_up_few_features(rows, features, dtype):
    tile = product_tile((rows, features, 64), (2, 12), Numerics.uniform(dtype), target())
    least = -(-features // 16) * 16
    assert -(-features // tile.features) * tile.features <= 1.15 * least
    assert tile.parts == 1


def test_more_rows_than_a_grid_has_stay_apart():
    numerics = Numerics.uniform("float16")
    most = MOST_BLOCKS * 128
    assert product_tile((most, 16, 16), (2,), numerics, target())
    assert product_tile((most + 1, 16, 16), (2,), numerics, target()) is None


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        batch, length, _ = q.shape
        heads = (x.reshape(batch, length, 3, 16).transpose(1, 2) for x in (q, k, v))
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads)
        return mixed.transpose(1, 2).reshape(batch, length, 48)


@pytest.mark.grid
@pytest.mark.parametrize("dims", [{0: Dim("batch")}, {0: Dim("batch"), 1: Dim("length")}])
def test_attention_of_open_extents_is_tiled_and_its_heads_are_read_in_place(dims):
    inputs = tuple(torch.randn(2, 17, 48) for _ in range(3))
    library = ts.compile(Attention(), inputs, dynamic_shapes=(dims,) * 3, target="cuda:sm_90")
    rules = [kernel.rule for kernel in library.kernels]
    assert rules.count("TileScalar") == 2
    assert "Rows" in rules
    assert "Stock" not in rules
    assert sum("transpose" in kernel.function for kernel in library.kernels) == 1


class Half(torch.nn.Module):
    def forward(self, x):
        rows = {"a row more": lambda: torch.cat([x[:, :1], x], 1), "half": lambda: x[:, ::2]}
        return torch.cat([self.scaled(y()) for y in rows.values()], 1)

    def scaled(self, y):
        return (0.5 * (y @ y.transpose(1, 2))).clamp(-4, 4) @ y


@needs_nvrtc
def test_products_of_computed_rows_are_executed():
    x = torch.randint(-2, 3, (3, 40, 16), generator=torch.Generator().manual_seed(0)).half()
    dims = {0: Dim("batch"), 1: Dim("length", min=2, max=64)}
    library = ts.compile(Half(), (x,), dynamic_shapes=(dims,), target="cuda:sm_80")
    rules = [kernel.rule for kernel in library.kernels if "matmul" in kernel.function]
    assert rules == ["TileTensorCore"] * len(rules) != []
    for batch, length in ((1, 2), (2, 17), (3, 40)):
        part = x[:batch, :length].contiguous()
        emulation = emulate(library, part.numpy())
        assert not emulation.report.findings, emulation.report.findings
        assert np.array_equal(emulation.outputs[0], Half()(part.float()).half().numpy())
