"""Sorting on GPUs: stable, NaN above every number, of lines longer than a run."""

from __future__ import annotations

import pytest
import torch

from tests.cuda.kernels import needs_nvrtc
from tests.cuda.use import assert_equal_on_gpu
from tvm_sparse.ops.cuda import sort

pytestmark = needs_nvrtc


def values(*shape: int) -> torch.Tensor:
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_equal_elements_keep_their_order(dtype):
    x = values(3, 40).to(getattr(torch, dtype))
    if x.is_floating_point():
        x[0, 3], x[0, 30], x[1, 5], x[2, 7] = torch.nan, torch.nan, torch.inf, -0.0
    assert_equal_on_gpu(
        lambda x: (
            *x.sort(dim=1, stable=True),
            *x.sort(dim=1, stable=True, descending=True),
            x.argsort(dim=0, stable=True),
        ),
        x,
    )


@pytest.mark.grid
@pytest.mark.parametrize("length", [7, 8, 9, 33, 63])
def test_runs_are_merged(length, monkeypatch):
    monkeypatch.setattr(sort, "RUN", 8)
    x = values(2, length, 2)
    assert_equal_on_gpu(
        lambda x: (
            *x.sort(dim=1, stable=True),
            x.argsort(dim=1, stable=True, descending=True),
        ),
        x,
    )


def test_the_first_few():
    x = torch.randperm(30, generator=torch.Generator().manual_seed(0)).reshape(2, 15).float()
    x[1, 3] = torch.nan
    assert_equal_on_gpu(
        lambda x: (*x.topk(4, 1), x.topk(1, 0, largest=False).values, x.kthvalue(2, 1).values), x
    )


def test_scatters_combine_in_order_and_ignore_nothing():
    x = values(6, 5).float()
    places = torch.tensor([0, 2, 0, 1, 2, 0])
    assert_equal_on_gpu(
        lambda x: (
            torch.zeros(3, 5).index_add(0, places, x),
            torch.zeros(3, 5).index_put((places,), x, accumulate=True),
            x.gather(1, places[:5].repeat(6, 1)),
        ),
        x,
    )
