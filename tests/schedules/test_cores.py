import math

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx
from tvm.target import Target

from benchmarks.cases.kernel_cases import conv
from tests.kernels import host
from tvm_sparse.ops.contractions.batch_matmul import View, batch_matmul
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.build import build_function
from tvm_sparse.schedules.cpu import cores
from tvm_sparse.schedules.cpu.contraction import ContractionRule
from tvm_sparse.selection.candidates import dense_candidate


@pytest.mark.parametrize("size", [112, 224])
def test_a_tile_with_as_many_loops_as_axes_is_not_scheduled_again(size):
    """The first convolution of VGG: large enough for the loops to be fused for all threads."""
    build_function(dense_candidate(conv(size, 3, 64, 3).contraction, host()).func, host())


@pytest.mark.parametrize(
    ("size", "count", "steps"),
    [
        (14, 2, 12),  # six feature tiles, each plane in two parts
        (7, 8, 42),  # a prime plane is taken whole
    ],
)
def test_threads_share_as_few_steps_as_are_even(size, count, steps, monkeypatch):
    monkeypatch.delenv("TVM_NUM_THREADS", raising=False)
    sch = s_tir.Schedule(te.create_prim_func(_grid(6, size)))
    loops = sch.get_loops(sch.get_sblock("Y"))
    target = Target({"kind": "llvm", "num-cores": count})
    left = cores.few_tasks(sch, loops[:3], loops[1:2], target)
    assert b.extent(sch, left[0]) == steps
    assert f"T.parallel({steps})" in sch.mod.script()
    assert math.prod(b.extent(sch, loop) for loop in left) == 6 * size * 5
    built = tvm.compile(sch.mod, target="llvm")
    x = np.random.default_rng(0).standard_normal((6, size, 5, 16)).astype(np.float32)
    y = tvm.runtime.tensor(np.zeros_like(x))
    built["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(y.numpy(), x + np.float32(1))


def test_one_thread_has_nothing_to_share(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    sch = s_tir.Schedule(te.create_prim_func(_grid(6, 14)))
    loops = sch.get_loops(sch.get_sblock("Y"))[:3]
    assert cores.few_tasks(sch, loops, loops[1:2], host()) == loops


def test_one_step_stays_serial():
    sch = s_tir.Schedule(te.create_prim_func(_grid(1, 1)))
    loops = sch.get_loops(sch.get_sblock("Y"))[:2]
    assert cores.tasks(sch, loops) == loops
    assert "T.parallel" not in sch.mod.script()


def test_threads_share_products_of_open_rows_and_columns(monkeypatch):
    """Their operations are counted as those of a tile, not of a single row and column."""
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    n = tirx.Var("n", "int64")
    left, right, out = View((12, n, 32)), View((12, 32, n)), View((12, n, n))
    sch = ContractionRule().apply(batch_matmul(left, right, out, host()), host(), tunable=False)
    assert "T.parallel" in sch.mod.script()


def test_threads_share_lines_of_open_planes_and_not_their_tiles(monkeypatch):
    """The index of a line is a loop's own: none is divided for each tile."""
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    high, wide = tirx.Var("h", "int64"), tirx.Var("w", "int64")
    c = Contraction((1, high, wide), 32, 32, (1, 1), (1, 1), (1, 1), (high, wide))
    sch = ContractionRule().apply(dense_candidate(c, host()).func, host(), tunable=False)
    loops = [line.strip() for line in sch.mod.script().splitlines() if "T.parallel" in line]
    assert loops, sch
    assert all(line.endswith(" in T.parallel(h):") for line in loops)


@pytest.mark.parametrize(
    ("shape", "large"),
    [(("n", 768), False), ((1, "t", 768), True), (("n", "h", "w", 8), True), (("2n", 256), True)],
)
def test_open_extents_behind_the_batch_count_as_many(shape, large):
    x = te.placeholder([_extent(of) for of in shape], name="X")
    sch = s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, lambda *i: x(*i) + 1.0, "Y")]))
    assert cores.is_large(sch, sch.get_sblock("Y")) == large


def _extent(of):
    return of if isinstance(of, int) else tirx.Var(of[-1], "int64") * int(of[:-1] or 1)


def _grid(features, size):
    x = te.placeholder((features, size, 5, 16), name="X")
    return [x, te.compute(x.shape, lambda *i: x(*i) + 1.0, name="Y")]
