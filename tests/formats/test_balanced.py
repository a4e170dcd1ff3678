"""Balanced format: exact round trips, smallest extents, layout of words, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices, random_matrix
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat


@given(matrices(), st.integers(1, 70), st.sampled_from([1, 4, 16]), st.sampled_from([1, 2, 4]))
def test_round_trip(matrix, bank, lanes, share):
    bank = min(bank, matrix.shape[1])
    format = BalancedFormat.of(matrix, bank=bank, lanes=lanes, share=share)
    assert_round_trip(format, matrix)
    if format.keep > 1:
        with pytest.raises(UnsupportedError, match=f"too many nonzeros.*at most {format.keep - 1}"):
            BalancedFormat(*matrix.shape, format.keep - 1, bank, lanes, share).encode(matrix)


@given(
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(1, 16),
    st.sampled_from([1, 2]),
    st.integers(0, 2**32),
)
def test_parts_of_a_bank(rows, banks, keep, share, seed):
    rng = np.random.default_rng(seed)
    kept = rng.random((rows, 4 * banks, 16)).argsort(-1) < keep
    matrix = (rng.integers(1, 99, kept.shape) * kept).reshape(rows, -1).astype(np.int8)
    plain = BalancedFormat.of(matrix, bank=64, share=share, depth=4)
    format = BalancedFormat.of(matrix, bank=64, share=share, depth=4, parts=4)
    arrays = assert_round_trip(format, matrix)
    if format.parts == 4:
        assert format.keep == plain.keep
        assert arrays["indices"].max() <= 255
        assert format.nbytes(np.int8) <= plain.nbytes(np.int8)
    else:
        assert format == plain
    if share == 1:
        assert format.parts == 4


def test_two_indices_in_parts_share_a_byte():
    matrix = np.zeros((1, 64), np.int8)
    matrix[0, [1, 2, 3, 4, 16 + 4, 16 + 5, 32 + 9, 48 + 15]] = range(1, 9)
    format = BalancedFormat(1, 64, keep=16, bank=64, lanes=1, depth=4, parts=4)
    assert (format.slots, format.words) == (4, 2)
    arrays = assert_round_trip(format, matrix)
    low, high = arrays["indices"][0, 0] & 15, arrays["indices"][0, 0] >> 4
    assert low.tolist() == [1, 2, 3, 4]
    assert high[2:].tolist() == [4, 5]
    assert arrays["values"][0, 0].tolist() == [
        [1, 2, 3, 4],
        [0, 0, 5, 6],
        [0, 0, 0, 7],
        [0, 0, 0, 8],
    ]


def test_uneven_parts_stay_one():
    matrix = np.zeros((1, 64), np.int8)
    matrix[0, :4] = 1  # parts would store 16 values
    assert BalancedFormat.of(matrix, bank=64, lanes=1, depth=4, parts=4).parts == 1
    matrix = np.ones((1, 80), np.int8)  # the last bank begins in another one
    assert BalancedFormat.of(matrix, bank=64, lanes=1, depth=4, parts=4).parts == 1
    with pytest.raises(UnsupportedError, match="80 columns"):
        BalancedFormat(1, 80, keep=16, bank=64, parts=4)
    with pytest.raises(UnsupportedError, match="keep = 2"):
        BalancedFormat(1, 64, keep=2, bank=64, parts=4)


@given(st.integers(1, 4), st.integers(0, 20), st.integers(0, 2**32))
def test_segments(taps, more, seed):
    matrix = random_matrix((9, taps * (16 + more)), 0.3, seed)
    format = BalancedFormat.of(matrix, segments=taps)
    assert_round_trip(format, matrix)
    assert format.banks == taps * -(-(16 + more) // 16)


def test_shared_rows_have_the_indices_of_all():
    matrix = np.zeros((32, 16), np.float32)
    matrix[0, 3], matrix[16, 7] = 1, 2
    assert BalancedFormat.of(matrix).keep == 1
    format = BalancedFormat.of(matrix, share=2)
    arrays = assert_round_trip(format, matrix)
    assert format.keep == 2
    assert arrays["values"][:, 0, :, 0].tolist() == [[1, 0], [0, 2]]
    assert arrays["indices"][0, 0, 0] == 3 | 7 << 4


def test_words_hold_whole_banks_lowest_bits_first():
    matrix = np.zeros((1, 64), np.float32)
    matrix[0, [1, 2, 16 + 4, 32 + 9, 48 + 15]] = 1
    format = BalancedFormat(1, 64, keep=2, lanes=1)
    assert (format.banks_per_word, format.words) == (4, 1)
    word = int(format.encode(matrix)["indices"].view(np.uint32)[0, 0, 0])
    assert [word >> 4 * i & 15 for i in range(8)] == [1, 2, 0, 4, 0, 9, 0, 15]


def test_a_bank_may_need_several_words():
    format = BalancedFormat(1, 16, keep=16, lanes=1)
    assert (format.words_per_bank, format.words) == (2, 2)
    assert_round_trip(format, np.arange(1, 17, dtype=np.int8).reshape(1, 16))


def test_extents_that_cannot_be_stored_are_refused():
    with pytest.raises(UnsupportedError, match="segments of at least 16 columns"):
        BalancedFormat(4, 15, keep=1)
    with pytest.raises(UnsupportedError, match="33 columns in 2 segments"):
        BalancedFormat(4, 33, keep=1, segments=2)
    with pytest.raises(UnsupportedError, match="keep = 17"):
        BalancedFormat(4, 32, keep=17)
    with pytest.raises(UnsupportedError, match="keep = 0"):
        BalancedFormat(4, 32, keep=0)


def test_nan_is_refused():
    matrix = np.full((4, 16), np.nan, np.float32)
    with pytest.raises(InputError, match="nan at row 0, column 0"):
        BalancedFormat.of(matrix)
    with pytest.raises(InputError, match="nan at row 0, column 0"):
        BalancedFormat(4, 16, keep=16).encode(matrix)


def test_a_bank_without_zeros_shares_a_value_between_slots():
    matrix = np.arange(1, 41, dtype=np.float32).reshape(2, 20)
    matrix[:, :4] = 0  # so that the first bank is not the fullest
    format = BalancedFormat.of(matrix)
    assert format.keep == 12
    arrays = assert_round_trip(format, matrix)
    last = arrays["values"][0, 1, :, 0]
    assert (last != 0).all()  # four columns of its own, in twelve slots
