"""Banks in the order of Hopper's threads: the round trip, where a value goes, what is refused."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.swizzled_banks import MEMORY_BANKS, SwizzledBanksFormat
from tvm_sparse.patterns.balanced import Balanced


def places_of(format, words):
    """Return the places ``(tiles, 128, slots)`` in bytes of a row."""
    fours = words.view(np.uint8).reshape(*words.shape, 4)[:, format.value_words :]
    return fours.transpose(0, 2, 1, 3).reshape(len(words), 128, -1)[:, :, : format.slots]


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 150), st.integers(1, 200)),
    density=st.floats(0, 0.3),
    dtype=st.sampled_from(["float16", "bfloat16"]),
    seed=st.integers(0, 99),
)
def test_round_trip(shape, density, dtype, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 9, shape) * (rng.random(shape) < density)
    matrix = values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if SwizzledBanksFormat.slots_of(matrix) > 16:
        return
    format = SwizzledBanksFormat.of(matrix)
    arrays = format.encode(matrix)
    assert np.array_equal(format.decode(arrays, matrix.dtype), matrix)
    assert format.nbytes(dtype) == sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize("keep", [2, 3, 8])
def test_no_two_slots_of_a_row_have_one_place(keep):
    rng = np.random.default_rng(0)
    scores = rng.random((64, 128), dtype=np.float32)
    format = SwizzledBanksFormat(64, 128, 9, 2)
    matrix = (Balanced(32, keep).project(scores) * scores).astype(np.float16)
    places = places_of(format, format.encode(matrix)["words"]).reshape(2, 64, 18)
    assert places.max() < 128
    assert (np.diff(np.sort(places.astype(int), axis=2), axis=2) >= 2).all()
    assert not (places & 1).any()


def test_place_of_a_value():
    """Column 41 is in piece 5, which row 9 has at place 5 ^ 1."""
    matrix = np.zeros((64, 64), np.float16)
    matrix[9, 41] = 3
    words = SwizzledBanksFormat(64, 64, 1, 1).encode(matrix)["words"]
    values, places = words.view(np.uint32)[0]
    (thread,) = np.flatnonzero(values)
    assert thread // 2 == 9
    assert values[thread] == np.float16(3).view(np.uint16)
    assert places[thread] == 2 * ((5 ^ 1) * 8 + 1)


def test_stores_of_a_warp_are_apart():
    """At random 3.5 threads of 32 meet in one bank of shared memory."""
    scores = np.random.default_rng(0).random((256, 1024), dtype=np.float32)
    matrix = (Balanced(32, 8).project(scores) * scores).astype(np.float16)
    format = SwizzledBanksFormat.of(matrix)
    banks = places_of(format, format.encode(matrix)["words"]).reshape(-1, 32, format.slots) // 4
    met = (banks[..., None] == np.arange(MEMORY_BANKS)).sum(1).max(-1)
    assert met.mean() < 2.7


def test_what_does_not_fit_is_refused():
    full = np.ones((64, 64), np.float16)
    with pytest.raises(UnsupportedError, match="32 slots of a thread; expected 1 to 16"):
        SwizzledBanksFormat.of(full)
    with pytest.raises(UnsupportedError, match="32 slots of a thread; expected at most 4"):
        SwizzledBanksFormat(64, 64, 4, 1).encode(full)
