import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.tile_banks import TileBanksFormat


@given(
    st.integers(1, 40),
    st.integers(1, 200),
    st.floats(0, 1),
    st.sampled_from([16, 32, 48]),
    st.sampled_from([16, 48, 64]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 99),
)
def test_round_trip(rows, cols, sparsity, lanes, step, apart, seed):
    rng = np.random.default_rng(seed)
    dense = (rng.integers(1, 9, (rows, cols)) * (rng.random((rows, cols)) >= sparsity)).astype("f2")
    format = TileBanksFormat.of(dense, lanes=lanes, step=step, apart=apart)
    arrays = format.encode(dense)
    assert np.array_equal(format.decode(arrays), dense)
    assert format.nbytes(dense.dtype) == sum(a.nbytes for a in arrays.values())


def test_one_value_by_hand():
    dense = np.zeros((20, 80), "float32")
    dense[17, 32 + 16 + 5] = 7  # row 1 of the second tile down, bank 1 of the second tile across
    format = TileBanksFormat(20, 80, keep=2, bank=16, lanes=16, step=32)
    arrays = format.encode(dense)
    assert arrays["values"].shape == (2, 3, 16 * 4)
    assert arrays["values"][1, 1, 4 + 2] == 7
    assert arrays["indices"].shape == (2, 3, 16)
    assert arrays["indices"][1, 1, 1] == 5 << 8
    assert np.count_nonzero(arrays["indices"]) == 1


def test_rows_that_are_stored_apart():
    dense = np.zeros((16, 16), "float32")
    dense[:, 0] = np.arange(1, 17)
    format = TileBanksFormat(16, 16, keep=1, bank=16, lanes=16, step=16, apart=4)
    values = format.encode(dense)["values"].ravel().tolist()
    assert values == [1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 4, 8, 12, 16]
    with pytest.raises(UnsupportedError, match="a multiple of 3"):
        TileBanksFormat(16, 16, keep=1, bank=16, lanes=16, step=16, apart=3)


def test_the_bank_with_fewest_bytes_is_chosen():
    rng = np.random.default_rng(0)
    dense = np.zeros((8, 256), "float16")
    banks = dense.reshape(8, -1, 32)
    np.put_along_axis(banks, rng.random(banks.shape).argsort(-1)[..., :3], 1, -1)
    format = TileBanksFormat.of(dense, lanes=16, step=64)
    assert (format.bank, format.keep, format.slots, format.words) == (32, 3, 6, 1)


@pytest.mark.parametrize(
    ("keep", "bank", "message"), [(9, 8, "1 to 8"), (0, 8, "1 to 8"), (1, 128, "multiple of 128")]
)
def test_what_cannot_be_stored(keep, bank, message):
    with pytest.raises(UnsupportedError, match=message):
        TileBanksFormat(8, 64, keep=keep, bank=bank, lanes=16, step=64)


def test_too_much_in_a_bank():
    with pytest.raises(UnsupportedError, match="64 nonzeros in row 0, bank 0; expected at most 63"):
        TileBanksFormat(2, 64, keep=63, bank=64, lanes=16, step=64).encode(np.ones((2, 64), "f4"))
