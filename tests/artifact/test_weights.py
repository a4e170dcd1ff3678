import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tvm_sparse.artifact import weights
from tvm_sparse.artifact.weights import weight_stream, weight_table
from tvm_sparse.errors import InputError

ARRAYS = hnp.arrays(
    st.sampled_from(["bool", "int8", "uint16", "int64", "float16", ">f4", "float64"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9),
    elements={"allow_nan": False, "allow_infinity": False},
)


@given(st.lists(ARRAYS, max_size=5), st.sampled_from([64, 1 << 20]))
def test_stream_and_table_agree(arrays, piece_bytes):
    named = {f"w{i}": array for i, array in enumerate(arrays)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_PIECE_BYTES", piece_bytes)
        section = b"".join(weight_stream(named))
    table = weight_table(named)
    assert [entry.name for entry in table] == list(named)
    for entry, array in zip(table, arrays, strict=True):
        raw = section[entry.offset : entry.offset + entry.nbytes]
        assert entry.offset % 64 == 0
        assert entry.shape == array.shape
        np.testing.assert_array_equal(np.frombuffer(raw, entry.dtype).reshape(array.shape), array)


def test_any_layout():
    array = np.arange(24, dtype="float32").reshape(4, 6)
    for value in (array.T, array[::-1], array[:, ::2]):
        assert b"".join(weight_stream({"w": value})) == value.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_non_finite_weight_is_refused_by_name(bad, dtype):
    array = np.zeros((700, 800), dtype)
    array[699, 3] = bad
    with pytest.raises(InputError, match=rf"weight conv1\.bias: {bad} at index \(699, 3\)"):
        list(weight_stream({"fine": np.ones(3), "conv1.bias": array}))


@pytest.mark.parametrize("dtype", ["complex64", "object", "U3", "M8[s]"])
def test_dtype_that_artifacts_do_not_hold(dtype):
    with pytest.raises(InputError, match=r"weight w: dtype .*; expected one of bool"):
        weight_table({"w": np.zeros(3, dtype)})
