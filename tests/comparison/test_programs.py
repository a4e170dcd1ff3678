from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import torch

from tvm_sparse.comparison.programs import call, inputs_for
from tvm_sparse.errors import InputError
from tvm_sparse_runtime.spec import TensorSpec


def test_inputs_fit_their_specifications():
    specs = [TensorSpec("x", ("batch", 3), "float32"), TensorSpec("i", (2,), "int64")]
    model = SimpleNamespace(inputs=specs, bounds=None)
    x, i = inputs_for(model)
    assert (x.shape, x.dtype, i.dtype) == ((1, 3), np.float32, np.int64)
    assert x.any()
    assert not i.any()
    np.testing.assert_array_equal(x, inputs_for(model)[0])


def test_files_are_read_and_others_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    (x,) = inputs_for(None, [tmp_path / "x.npy"])
    assert list(x) == [0, 1, 2]
    (tmp_path / "y.npy").write_text("text")
    with pytest.raises(InputError, match="cannot be read"):
        inputs_for(None, [tmp_path / "y.npy"])


def test_results_become_a_list_of_arrays():
    half = np.full(2, 0.5, ml_dtypes.bfloat16)  # DLPack of NumPy refuses it
    library = SimpleNamespace(run=lambda x: (torch.ones(2), np.zeros(3), half))
    first, second, third = call(library, [np.zeros(1)])
    assert isinstance(first, np.ndarray)
    assert (list(first), list(second), third.dtype) == ([1, 1], [0, 0, 0], half.dtype)
