"""Depthwise convolution against torch's, exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import host, integers, run
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.depthwise import depthwise


@pytest.mark.grid
@pytest.mark.parametrize("channels", [1, 8, 16, 24, 37])
@pytest.mark.parametrize("kernel, stride, dilation", [(3, 1, 1), (3, 2, 1), (5, 1, 2), (1, 1, 1)])
def test_exact_on_small_integers(channels, kernel, stride, dilation):
    rng = np.random.default_rng(channels)
    x = integers(rng, (2, 13, 15, channels))
    taps = integers(rng, (kernel, kernel, channels))
    expected = torch.nn.functional.conv2d(
        torch.from_numpy(x).permute(0, 3, 1, 2),
        torch.from_numpy(taps).permute(2, 0, 1)[:, None],
        stride=stride,
        dilation=dilation,
        groups=channels,
    ).permute(0, 2, 3, 1)
    contraction = Contraction(
        tuple(expected.shape[:3]),
        channels,
        channels,
        (kernel, kernel),
        (stride, stride),
        (dilation, dilation),
        (13, 15),
        depthwise=True,
    )
    operands = [x, taps.reshape(-1, channels)]
    got = run(depthwise(contraction, host()), operands, tuple(expected.shape))
    assert (got == expected.numpy()).all()
