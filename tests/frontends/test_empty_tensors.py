"""Operators on tensors without elements, whose extents no -1 can stand for."""

import pytest
import torch
from torch.nn import functional as F

import tvm_sparse as ts
from tests.modules import Apply

CASES = {
    "index_put of no columns": (
        lambda x: x.index_put((torch.tensor([0, 2]),), torch.ones(2, 0)),
        (3, 0),
    ),
    "index_put of no rows": (
        lambda x: x.index_put((torch.zeros(0, dtype=torch.int64),), torch.ones(0, 4)),
        (3, 4),
    ),
    "index_put by a scalar": (lambda x: x.index_put((torch.tensor(1),), torch.ones(4)), (3, 4)),
    "bilinear form of no rows": (lambda x: F.bilinear(x, x, torch.ones(6, 4, 4)), (0, 4)),
    "bilinear form of few features": (lambda x: F.bilinear(x, x, torch.ones(2, 4, 4)), (0, 4)),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
def test_they_are_as_in_pytorch(name):
    function, shape = CASES[name]
    x = torch.ones(shape)
    library = ts.compile(Apply(function).eval(), (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), function(x))
