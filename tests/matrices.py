"""Random sparse matrices of every element type, for properties of patterns and formats."""

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

DTYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int8": np.int8,
}


def random_matrix(shape, density, seed, dtype="float32", *, empty_rows=0.0):
    """Return small integers (exact in every type), some of them -0.0, the rest zero."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape) * rng.choice([-1, 1], shape)
    matrix = values.astype(np.float32) * (rng.random(shape) < density)
    matrix[rng.random(shape[0]) < empty_rows] = 0
    return matrix.astype(DTYPES[dtype])


def matrices(rows=40, cols=70):
    """Draw matrices of any shape up to these extents, dense, empty or in between."""
    return st.builds(
        random_matrix,
        st.tuples(st.integers(1, rows), st.integers(1, cols)),
        st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]),
        st.integers(0, 2**32),
        st.sampled_from(sorted(DTYPES)),
        empty_rows=st.sampled_from([0.0, 0.5]),
    )


def assert_round_trip(format, matrix):
    """Check that nothing is lost, and that ``nbytes`` is what the arrays take."""
    arrays = format.encode(matrix)
    decoded = format.decode(arrays)
    assert decoded.dtype == matrix.dtype
    np.testing.assert_array_equal(decoded, matrix)
    assert format.nbytes(matrix.dtype) == sum(a.nbytes for a in arrays.values())
    assert format.nbytes(matrix.dtype.name) == format.nbytes(matrix.dtype)
    return arrays
