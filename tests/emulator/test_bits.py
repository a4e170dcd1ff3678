"""Integers as CUDA's intrinsics need them, against what the PTX ISA says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import apply, needs_nvrtc, run
from tests.emulator.test_executor import INTEGERS, integers, wrapped
from tvm_sparse_emulator import compile_ptx, execute

WORDS = np.random.default_rng(0).integers(0, 2**32, (3, 64), dtype="u4")
COUNTS = np.arange(64, dtype="u4")


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
@pytest.mark.parametrize("side", ["l", "r"])
def test_funnel_shifts(side, mode):
    low, high, _ = WORDS
    got = apply(f"shf.{side}.{mode}.b32", [low, high, COUNTS], low.dtype)
    by = np.minimum(COUNTS, 32) if mode == "clamp" else COUNTS % 32
    both = [int(h) << 32 | int(lo) for h, lo in zip(high, low, strict=True)]
    move = (lambda v, n: v << n >> 32) if side == "l" else (lambda v, n: v >> n)
    wanted = [move(v, int(n)) % 2**32 for v, n in zip(both, by, strict=True)]
    assert got.tolist() == wanted


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("shift", [False, True])
def test_the_highest_bit(kind, shift):
    a = integers(kind, 0)
    a[:3] = 0, 1, np.iinfo(a.dtype).max
    got = apply(f"bfind{'.shiftamt' if shift else ''}.{kind}", [a], np.dtype("u4"))
    width = 8 * a.itemsize
    places = [(~int(x) if x < 0 else int(x)).bit_length() - 1 for x in a]
    far = [width - 1 - at if shift else at for at in places]
    assert got.tolist() == [2**32 - 1 if at < 0 else n for at, n in zip(places, far, strict=True)]


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_masks(mode):
    limit = (lambda n: min(n, 32)) if mode == "clamp" else (lambda n: n % 32)
    widths = COUNTS[::-1].copy()
    got = apply(f"bmsk.{mode}.b32", [COUNTS, widths], np.dtype("u4"))
    pairs = zip(COUNTS.tolist(), widths.tolist(), strict=True)
    assert got.tolist() == [((1 << limit(n)) - 1 << limit(a)) % 2**32 for a, n in pairs]


@pytest.mark.parametrize("kind", INTEGERS)
def test_differences(kind):
    a, b, c = (integers(kind, seed) for seed in range(3))
    wanted = [abs(int(x) - int(y)) + int(z) for x, y, z in zip(a, b, c, strict=True)]
    assert np.array_equal(apply(f"sad.{kind}", [a, b, c], a.dtype), wrapped(wanted, a.dtype))


@pytest.mark.parametrize("left", ["u32", "s32"])
@pytest.mark.parametrize("right", ["u32", "s32"])
def test_products_of_bytes(left, right):
    a, b, c = WORDS
    parts = [
        x.view("u1" if kind == "u32" else "i1").reshape(-1, 4).astype("i8")
        for x, kind in ((a, left), (b, right))
    ]
    wanted = ((parts[0] * parts[1]).sum(1) + c) % 2**32
    assert apply(f"dp4a.{left}.{right}", [a, b, c], np.dtype("u4")).tolist() == wanted.tolist()


SPACES = """
extern "C" __global__ void k(int* y) {
  __shared__ int s;
  int own[4];
  own[threadIdx.x % 4] = 0;
  int* all[3] = {y, &s, own};
  for (int i = 0; i < 3; ++i)
    y[i] = __isGlobal(all[i]) + 2 * __isShared(all[i]) + 4 * __isLocal(all[i]);
}
"""


@needs_nvrtc
def test_where_addresses_lie():
    y = np.zeros(3, "i4")
    assert not execute(compile_ptx(SPACES), "k", (1, 1, 1), (1, 1, 1), [y]).findings
    assert y.tolist() == [1, 2, 4]


SORT = """
#include <cub/block/block_radix_sort.cuh>
extern "C" __global__ void k(int* x) {
  using Sort = cub::BlockRadixSort<int, 64, 2>;
  __shared__ Sort::TempStorage room;
  int own[2] = {x[2 * threadIdx.x], x[2 * threadIdx.x + 1]};
  Sort(room).Sort(own);
  for (int i = 0; i < 2; ++i) x[2 * threadIdx.x + i] = own[i];
}
"""


@needs_nvrtc
def test_a_sort_of_cub():
    x = np.random.default_rng(0).integers(-1000, 1000, 128).astype("i4")
    wanted = np.sort(x)
    assert not execute(compile_ptx(SORT), "k", (1, 1, 1), (64, 1, 1), [x]).findings
    assert np.array_equal(x, wanted)


@pytest.mark.parametrize("hint", ["prefetch.global.L2", "prefetch.L1", "prefetch.global.L1"])
def test_prefetches_change_nothing(hint):
    assert not run(f"{hint} [%d0+4096];", [np.zeros(1, "u4")], 1).findings
