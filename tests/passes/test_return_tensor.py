"""ReturnTensor: one output is returned itself; several, and nothing else, stay a tuple."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm_ffi
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module
from tvm_sparse.passes.finish.return_tensor import ReturnTensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_only_output_is_returned_itself():
    before = module(lambda x: relax.Tuple([relax.op.exp(x)]), X.shape)
    after = ReturnTensor()(before)
    assert tvm_ffi.structural_equal(after, module(relax.op.exp, X.shape))
    np.testing.assert_array_equal(evaluate(after, X), evaluate(before, X)[0])


@pytest.mark.parametrize(
    "body",
    [lambda x: relax.Tuple([relax.op.exp(x), x]), lambda x: relax.Tuple([]), relax.op.exp],
)
def test_others_stay(body):
    before = module(body, X.shape)
    assert ReturnTensor()(before).same_as(before)


class Same(torch.nn.Module):
    def forward(self, x):
        return x


def test_an_input_that_is_returned_is_a_copy():
    x = torch.ones(4, 16)
    found = ts.compile(Same(), (x,), target="cpu")(x)
    assert torch.equal(found, x)
    assert found.data_ptr() != x.data_ptr()
