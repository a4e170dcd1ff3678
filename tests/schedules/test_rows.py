"""The rule for softmax and layer norm: small results stay in registers and on the stack."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, run
from tvm_sparse.ops.rows import layer_norm, softmax
from tvm_sparse.schedules.build import build_function

OPERATORS = {
    "softmax": lambda shape: softmax(shape, "float32"),
    "layer_norm": lambda shape: layer_norm(shape, "float32", 1e-5),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("length", [16, 37])
def test_short_rows_call_no_allocator(operator, length):
    source = build_function(OPERATORS[operator]((8, length)), host()).inspect_source("ll")
    assert "TVMBackendAllocWorkspace" not in source


@pytest.mark.parametrize("place", [0, 20, 21, 36])
def test_nan_stays_in_its_row(place):
    x = np.random.default_rng(0).standard_normal((8, 37)).astype(np.float32)
    x[2, place] = np.nan
    got = run(softmax(x.shape, "float32"), [x], x.shape)
    assert np.isnan(got).all(-1).tolist() == [row == 2 for row in range(8)]
    assert np.isfinite(got).all(-1).sum() == 7
