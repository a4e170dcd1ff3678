"""Dense is the verdict of weights without zeros, and of those only."""

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.dense import Dense


def test_project_keeps_everything():
    assert Dense().project(np.zeros((2, 3))).all()
    assert Dense().project(np.zeros((2, 3)), 0.0).all()
    with pytest.raises(InputError, match=r"sparsity 0\.5; expected 0"):
        Dense().project(np.zeros((2, 3)), 0.5)


def test_detect():
    fit = Dense.detect(np.ones((3, 4)))
    assert (fit.sparsity, fit.cost.relative) == (0, pytest.approx(1))
    assert fit.summary() == "dense"
    assert Dense.detect(np.eye(3)) is None
