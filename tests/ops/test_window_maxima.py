"""Maxima of windows with their places, against PyTorch: ties, NaN, borders and every rank."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False)

CASES = {
    "lines": (lambda x: F.adaptive_max_pool1d(x, 5, return_indices=True), (2, 3, 57)),
    "planes": (lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), (2, 3, 13, 35)),
    "narrow": (lambda x: F.adaptive_max_pool2d(x, (2, 2), return_indices=True), (1, 3, 9, 5)),
    "volumes": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 4), return_indices=True), (3, 4, 9, 18)),
    "strided": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (2, 3, 11, 40)),
    "far apart": (lambda x: F.max_pool2d(x, 2, 1, 1, 2, return_indices=True), (1, 2, 8, 33)),
    "beyond": (lambda x: F.max_pool3d(x, 2, 2, 1, 1, True, True), (1, 2, 5, 5, 19)),
    "one column": (lambda x: F.adaptive_max_pool2d(x, (2, 1), return_indices=True), (1, 2, 7, 1)),
}


class Pool(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
def test_values_and_places(name):
    function, shape = CASES[name]
    module, x = Pool(function), torch.randint(-4, 5, shape).float()
    library = ts.compile(module, (x,), config=CONFIG)
    some = torch.where(torch.rand(shape) < 0.05, torch.nan, x)
    for values in (x, torch.randn(shape), some, torch.full(shape, -torch.inf)):
        for found, expected in zip(library(values), module(values), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
