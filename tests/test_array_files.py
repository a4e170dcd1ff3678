import numpy as np
import pytest

from tvm_sparse.array_files import read_array
from tvm_sparse.errors import InputError


def test_arrays_are_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    np.testing.assert_array_equal(read_array(tmp_path / "x.npy"), [0, 1, 2])


def test_what_is_no_array_is_refused(tmp_path):
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.zeros(1))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_text("1 2 3")
    for name in ("pickled.npy", "several.npz", "empty.npy", "text.npy", "missing.npy", "."):
        with pytest.raises(InputError, match=r"\.npy file"):
            read_array(tmp_path / name)
