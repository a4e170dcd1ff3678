"""Columns at known places: all sources near, across vectors, short rows, and what is too far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te

from tests.kernels import run
from tvm_sparse.ops.tensors.near_columns import chunks_of, near_columns
from tvm_sparse.ops.tensors.windows import MOST_CHUNKS


def check(shape, places, dtype="float32"):
    chunks = chunks_of(places, shape[-1])
    assert chunks is not None
    x = te.placeholder(shape, dtype, "X")
    func = te.create_prim_func([x, near_columns(x, places, chunks)])
    value = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)
    found = run(func, [value], (*shape[:-1], len(places)), dtype=dtype)
    np.testing.assert_array_equal(found, value[..., places])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize(
    ("extent", "wanted"), [(14, 28), (7, 14), (33, 66), (33, 40), (56, 37), (2, 5), (50, 31)]
)
def test_resizing(extent, wanted, dtype):
    check((2, 3, extent), [j * extent // wanted for j in range(wanted)], dtype)


def test_the_two_vectors_of_a_chunk_may_be_far_apart():
    check((2, 3, 56), [54, 55, *range(56), 0, 1])


@pytest.mark.parametrize("rows", [[0, 0, 1, 1, 2, 2], [2, 1, 0, 1], [1]])
def test_rows_at_known_places_too(rows):
    places = [1, 0, *range(20), 18]
    tensors = te.placeholder((4, 3, 20), "float32", "X"), te.placeholder((len(rows),), "int64", "R")
    x, r = np.arange(240, dtype=np.float32).reshape(4, 3, 20), np.array(rows)
    func = te.create_prim_func(
        [*tensors, near_columns(tensors[0], places, chunks_of(places, 20), tensors[1])]
    )
    np.testing.assert_array_equal(run(func, [x, r], (4, len(rows), 23)), x[:, r][..., places])


def test_many_rows_are_shared_by_threads():
    check((4096, 20), [j // 2 for j in range(40)])


@settings(deadline=None, max_examples=8)
@given(st.integers(2, 70), st.integers(2, 70), st.randoms(use_true_random=False))
def test_any_near_places(extent, wanted, random):
    """Places in any order, as long as each chunk's are near."""
    width = min(16, extent)
    firsts = [random.randrange(max(1, extent - width)) for _ in range(-(-wanted // 16) + 1)]
    places = [min(extent - 1, firsts[j // 16] + random.randrange(width)) for j in range(wanted)]
    if chunks_of(places, extent) is not None:
        check((3, extent), places)


@pytest.mark.parametrize(
    ("places", "extent"),
    [
        (range(0, 64, 4), 64),  # every fourth: from four vectors
        ([], 16),
        ([0], 16),
        ([0, 0, 0], 1),
        ([0] * (16 * MOST_CHUNKS + 1), 16),
    ],
)
def test_what_shuffles_cannot(places, extent):
    assert chunks_of(list(places), extent) is None
