import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.kept_tiles import KeptTilesFormat


def joint(rng, rows, cols, lanes, step, share):
    """Nonzeros in a part of the tiles only."""
    tiles = rng.random((-(-rows // lanes), -(-cols // step))) < share
    mask = np.repeat(np.repeat(tiles, lanes, 0), step, 1)[:rows, :cols]
    return (rng.integers(1, 9, (rows, cols)) * (rng.random((rows, cols)) < 0.4) * mask).astype("f4")


@given(
    st.integers(1, 70),
    st.integers(1, 150),
    st.floats(0, 1),
    st.sampled_from([16, 32]),
    st.sampled_from([16, 48]),
    st.sampled_from([1, 4]),
    st.integers(0, 99),
)
def test_round_trip(rows, cols, share, lanes, step, apart, seed):
    dense = joint(np.random.default_rng(seed), rows, cols, lanes, step, share)
    format = KeptTilesFormat.of(dense, lanes=lanes, step=step, apart=apart)
    arrays = format.encode(dense)
    assert np.array_equal(format.decode(arrays), dense)
    assert format.nbytes(dense.dtype) == sum(a.nbytes for a in arrays.values())
    kept = arrays["kept"].reshape(-1, format.slots)
    assert (np.diff(kept, axis=1) > 0).all()
    assert kept.max() < format.across


def test_empty_tiles_are_not_stored():
    dense = np.zeros((32, 160), "float32")
    dense[3, 40], dense[20, 150] = 1, 2
    format = KeptTilesFormat.of(dense, lanes=16, step=32)
    assert (format.slots, format.across) == (1, 5)
    assert format.encode(dense)["kept"].tolist() == [1, 4]


def test_too_many_tiles():
    dense = np.zeros((16, 64), "float32")
    dense[0, 0] = 1
    format = KeptTilesFormat.of(dense, lanes=16, step=16)
    with pytest.raises(UnsupportedError, match="4 tiles in block row 0; expected at most 1"):
        format.encode(np.ones((16, 64), "float32"))
