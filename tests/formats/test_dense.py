"""Dense format: exact round trips, rows side by side."""

from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices
from tvm_sparse.formats.dense import DenseFormat, DenseTapFormat


@given(matrices(), st.sampled_from([1, 4, 16]))
def test_rows_side_by_side(matrix, lanes):
    format = DenseFormat(*matrix.shape, lanes)
    arrays = assert_round_trip(format, matrix)
    assert arrays["values"].shape == (format.row_blocks, matrix.shape[1], lanes)


@given(matrices())
def test_taps_of_channels(matrix):
    assert_round_trip(DenseTapFormat(*matrix.shape), matrix)
