from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.lane_banks import LANES, LaneBanksFormat


def matrix(rng, shape, sparsity, dtype="float32"):
    values = rng.integers(1, 9, shape) * (rng.random(shape) >= sparsity)
    return values.astype(dtype)


SIZES = st.tuples(st.integers(1, 5), st.integers(1, 600) | st.integers(2000, 9000))


@given(SIZES, st.floats(0, 1), st.integers(0, 99), st.booleans(), st.booleans())
def test_round_trip(size, sparsity, seed, half, beside):
    rows, cols = size
    dense = matrix(np.random.default_rng(seed), (rows, cols), sparsity, "f2" if half else "f4")
    format = LaneBanksFormat.of(dense)
    format = format.words_beside() if beside else format
    arrays = format.encode(dense)
    assert np.array_equal(format.decode(arrays), dense)
    assert format.nbytes(dense.dtype) == sum(a.nbytes for a in arrays.values())


def test_one_value_by_hand():
    dense = np.zeros((1, 2 * LANES * 16), "float32")
    dense[0, (LANES + 3) * 16 + 5] = 7  # second bank of lane 3
    format = LaneBanksFormat(1, dense.shape[1], keep=1, bank=16, vector=2)
    arrays = format.encode(dense)
    assert arrays["values"].shape == (1, 1, 1, LANES, 2)
    assert arrays["values"][0, 0, 0, 3].tolist() == [0, 7]
    assert arrays["indices"][0, 0, 3].tolist() == [5 << 4]
    assert np.count_nonzero(arrays["values"]) == 1


def test_words_side_by_side():
    format = LaneBanksFormat(1, 1 << 15, keep=11, bank=16, vector=8)
    dense = matrix(np.random.default_rng(0), (1, 1 << 15), 0.7)
    dense.reshape(-1, 16)[:, 11:] = 0
    lanes, beside = format.encode(dense)["indices"], format.words_beside()
    assert (format.words, beside.beside) == (8, 4)
    words = beside.encode(dense)["indices"]
    assert words.shape == (1, format.chunks, 2, LANES, 4)
    assert np.array_equal(words, lanes.reshape(1, -1, LANES, 2, 4).swapaxes(2, 3))
    with pytest.raises(UnsupportedError, match="3 of 8 words"):
        replace(format, beside=3)


def test_a_bank_with_few_bytes_and_wide_loads_is_chosen():
    rng = np.random.default_rng(0)
    dense = np.zeros((8, 4096), "float16")
    banks = dense.reshape(8, -1, 32)
    np.put_along_axis(banks, rng.random(banks.shape).argsort(-1)[..., :3], 1, -1)
    format = LaneBanksFormat.of(dense)
    assert (format.bank, format.keep, format.vector) == (32, 3, 4)
    assert format.slots == 12
    # Vectors of 8 would be a third of padding, vectors of 2 are narrower for nothing.
    assert LaneBanksFormat(8, 4096, 3, 32, 8).slots == 16
    assert LaneBanksFormat(8, 4096, 3, 32, 2).nbytes("float16") == format.nbytes("float16")


def test_long_lanes_are_cut_into_whole_vectors_words_and_banks():
    format = LaneBanksFormat(1, 1 << 15, keep=3, bank=32, vector=8)
    assert (format.turns, format.slots_per_word, format.chunk) == (32, 6, 48)
    assert (format.chunks, format.words, format.slots) == (2, 8, 96)
    odd = LaneBanksFormat(1, 1 << 15, keep=11, bank=16, vector=8)
    assert odd.chunk % 8 == 0
    assert odd.chunk <= 64


def test_bfloat16():
    dense = matrix(np.random.default_rng(0), (3, 100), 0.8).astype(ml_dtypes.bfloat16)
    format = LaneBanksFormat.of(dense)
    arrays = format.encode(dense)
    assert arrays["values"].dtype == ml_dtypes.bfloat16
    assert np.array_equal(format.decode(arrays), dense)


def test_too_much_in_a_bank():
    dense = np.zeros((2, 64), "float32")
    dense[1, 17:20] = 1
    with pytest.raises(UnsupportedError, match="3 nonzeros in row 1, bank 1; expected at most 2"):
        LaneBanksFormat(2, 64, keep=2, bank=16, vector=4).encode(dense)


def test_nonfinite():
    with pytest.raises(InputError, match="nan at row 0, column 1"):
        LaneBanksFormat(1, 2, 1, 8, 4).encode(np.array([[0, np.nan]], "float32"))


def test_keep_beyond_the_bank():
    with pytest.raises(UnsupportedError, match="1 to 8"):
        LaneBanksFormat(1, 8, keep=9, bank=8, vector=4)
