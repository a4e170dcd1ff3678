"""Vectors that CUDA lacks: booleans are bytes in memory, lanes of CPUs are loops."""

from __future__ import annotations

import pytest
import torch
import tvm_ffi
from torch import nn
from tvm import s_tir, te, tirx

from tests.cuda.kernels import needs_nvrtc
from tests.cuda.use import assert_equal_on_gpu
from tvm_sparse.schedules.blocks import VECTORIZED, nodes
from tvm_sparse.schedules.cuda.scalar_lanes import SerialConditions, scalar_lanes


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("columns", [6, 16])
def test_booleans(columns):
    x = torch.randint(-2, 3, (3, columns), generator=torch.Generator().manual_seed(0)).float()
    assert_equal_on_gpu(
        lambda x: (
            x > 0,
            ~(x > 1),
            (x > 0) | (x < -1),
            (x > 0).any(0),
            (x > 0).int(),
            x.half().bool(),
            torch.where(x > 0, 1.0, 2.0),
            (x > 0).to(torch.int8),
        ),
        x,
    )


@needs_nvrtc
def test_booleans_behind_a_layer():
    torch.manual_seed(0)
    layer = nn.Linear(16, 32, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-1, 2, layer.weight.shape))
    x = torch.randint(-2, 3, (5, 16)).float()
    assert_equal_on_gpu(lambda x: (layer(x) > 0, layer(x) > 1), x)


@needs_nvrtc
def test_bags():
    bag = nn.EmbeddingBag(9, 33, mode="max")
    assert_equal_on_gpu(bag, torch.tensor([[0, 3], [8, 8], [1, 2]]))


def _stored(shift: int) -> tirx.Stmt:
    y = tirx.decl_buffer([16], "float32")
    return scalar_lanes(tirx.BufferStore(y, y[tirx.Ramp(shift, 1, 8)] + y[0], [tirx.Ramp(0, 1, 8)]))


def test_a_lane_does_not_read_what_another_has_written():
    assert len(nodes(_stored(0), tirx.For)) == 2, "y[0] is read by all lanes"
    assert len(nodes(_stored(1), tirx.For)) == 2
    assert all(int(s.value.ty.dtype.lanes) == 1 for s in nodes(_stored(1), tirx.BufferStore))


def test_vectorized_loops_are_plain_ones():
    y, k = tirx.decl_buffer([16], "float32"), tirx.Var("k", "int32")
    body = tirx.BufferStore(y, tirx.const(1, "float32"), [k])
    loop = tirx.For(k, tirx.const(0), tirx.const(16), tirx.ForKind.VECTORIZED, body)
    found = scalar_lanes(loop)
    assert int(found.kind) == int(tirx.ForKind.SERIAL)
    assert tvm_ffi.structural_equal(found.body, body)


@pytest.mark.parametrize(("dtype", "vectors"), [("int64", 0), ("int32", 1)])
def test_long_elements_are_compared_lane_by_lane(dtype, vectors):
    """Indices of a table of 32 bits, widened to be compared, leave vectors."""
    x = te.placeholder((64,), dtype, "X")
    y = te.compute((64,), lambda i: tirx.Select(x[i].astype("int64") > i, 1.0, 2.0), "Y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    (loop,) = schedule.get_loops(schedule.get_sblock("Y"))
    schedule.vectorize(schedule.split(loop, [None, 4])[1])
    body = SerialConditions()(schedule.mod)["main"].body
    kinds = [int(loop.kind) for loop in nodes(body, tirx.For)]
    assert kinds.count(VECTORIZED) == vectors
