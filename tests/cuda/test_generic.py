"""What is no contraction on GPUs: numbers without axes, means of shares, assertions, forks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.use import CONFIG, Use, assert_equal_on_gpu
from tvm_sparse.errors import SparseError
from tvm_sparse.testing import emulate

pytestmark = needs_nvrtc


def test_choices_of_a_number():
    assert_equal_on_gpu(
        lambda x: (x.tril(1), torch.where(x > 0, x, 2.0)), torch.arange(-6.0, 6).reshape(3, 4)
    )


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_means_of_shares(dtype):
    x = torch.randint(-4, 5, (1, 2, 7, 6), generator=torch.Generator().manual_seed(0)).to(dtype)
    assert_equal_on_gpu(lambda x: F.adaptive_avg_pool2d(x, (3, 2)), 48 * x)
    assert_equal_on_gpu(lambda x: F.adaptive_avg_pool3d(x, 1), 84 * x)


def test_assertions_are_made_outside_of_graphs():
    places = torch.tensor([3, 0, 4, 4])
    assert_equal_on_gpu(lambda x: F.one_hot(x, 5), places)
    model = Use(lambda x: F.one_hot(x, 5))
    library = ts.compile(model, (places,), target="cuda:sm_90", config=CONFIG)
    with pytest.raises(SparseError, match="Class values must be smaller"):
        emulate(library, (places + 1).numpy())


def test_several_that_read_a_layer_are_not_all_pulled_into_its_tile():
    torch.manual_seed(0)
    layer = nn.Linear(16, 16).bfloat16()

    def forked(x):
        y = layer(x)
        return F.softplus(y) * torch.log1p(y.abs()) + F.mish(y)

    x = torch.randn(3, 16).bfloat16()
    library = ts.compile(Use(forked), (x,), target="cuda:sm_90", config=CONFIG)
    found = emulate(library, x.view(torch.int16).numpy().view("bfloat16"))
    assert not found.report.findings
    wanted = forked(x).float()
    torch.testing.assert_close(
        torch.from_numpy(found.outputs[0].astype("f4")), wanted, rtol=0.02, atol=0.02
    )
