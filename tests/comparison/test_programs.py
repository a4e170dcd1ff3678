from types import SimpleNamespace

import ml_dtypes
import numpy as np
import torch

from tvm_sparse.comparison.programs import call


def test_results_become_a_list_of_arrays():
    half = np.full(2, 0.5, ml_dtypes.bfloat16)  # DLPack of NumPy refuses it
    library = SimpleNamespace(run=lambda x: (torch.ones(2), np.zeros(3), half))
    first, second, third = call(library, [np.zeros(1)])
    assert isinstance(first, np.ndarray)
    assert (list(first), list(second), third.dtype) == ([1, 1], [0, 0, 0], half.dtype)
