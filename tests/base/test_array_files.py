import ml_dtypes
import numpy as np
import pytest

from tvm_sparse.base.array_files import read_array, read_arrays
from tvm_sparse.errors import InputError


def test_arrays_are_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    np.testing.assert_array_equal(read_array(tmp_path / "x.npy"), [0, 1, 2])


def test_bfloat16_is_read_as_it_was_written(tmp_path):
    values = np.array([1.5, -2]).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "x.npz", x=values)
    for found in (read_array(tmp_path / "x.npy"), read_arrays(tmp_path / "x.npz")["x"]):
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)


def test_what_is_no_array_is_refused(tmp_path):
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.zeros(1))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_text("1 2 3")
    for name in ("pickled.npy", "several.npz", "empty.npy", "text.npy", "missing.npy", "."):
        with pytest.raises(InputError, match=r"\.npy file"):
            read_array(tmp_path / name)


DAMAGED = {
    "archive": b"PK\x03\x04" + bytes(99),
    "whole archive": b"PK\x05\x06" + bytes(18),
    "large": b"\x93NUMPY\x01\x00\x46\x00"
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}",
    "huge": b"\x93NUMPY\x01\x00\x56\x00"
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999999999999999999,)}",
    "nested": b"\x93NUMPY\x01\x00\x00\x20" + b"(" * 8192,
    "cut": b"\x93NUMPY\x01\x00\xff",
    "version": b"\x93NUMPY\x09\x00\x46\x00",
    "pickle": b"\x80\x04K\x01.",
    "letters": b"\x93NUMPY\x01\x00\x04\x00{'\xff\xff",
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_one_error(case, tmp_path):
    content = DAMAGED[case]
    if case in ("large", "huge"):
        head = content[10:].ljust(118) + b"\n"
        content = content[:8] + len(head).to_bytes(2, "little") + head + bytes(80)
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(
        InputError, match=r"(cannot be read|holds several arrays).* expected a \.npy file"
    ):
        read_array(tmp_path / "x.npy")
