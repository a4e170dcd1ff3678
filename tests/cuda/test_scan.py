"""Running sums and products on GPUs: PyTorch's, of lines of any length, without races."""

from __future__ import annotations

import pytest
import torch

from tests.cuda.kernels import needs_nvrtc
from tests.cuda.use import assert_equal_on_gpu

pytestmark = needs_nvrtc


def integers(*shape: int) -> torch.Tensor:
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "bool"])
def test_sums(dtype):
    x = integers(2, 37).to(getattr(torch, dtype))
    assert_equal_on_gpu(lambda x: (x.cumsum(1), x.cumsum(0)), x)


def test_lines_longer_than_a_tile_and_side_by_side():
    assert_equal_on_gpu(lambda x: (x.cumsum(1), x[0].sign().cumprod(0)), integers(2, 300, 3))


def test_special_values_stay_where_they_are():
    x = integers(3, 9).float()
    x[0, 3], x[1, 2], x[1, 5] = torch.nan, torch.inf, -torch.inf
    assert_equal_on_gpu(lambda x: (x.cumsum(1), x.cumprod(1)), x)


def test_a_line_of_one_and_none_before():
    assert_equal_on_gpu(lambda x: (x[:, :1].cumsum(1), x.cumsum(1) - x), integers(3, 5))
