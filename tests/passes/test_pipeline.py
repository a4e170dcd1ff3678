"""The pipeline as a whole: what a model asserts is checked, and keeps nothing from fusing."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tvm_sparse as ts


class Classes(torch.nn.Module):
    """Encode numbers as classes, which PyTorch checks."""

    def forward(self, x):
        """Return a row of four for each number."""
        return F.one_hot((x.abs() * 2 + 1).long(), 4).float() * 2 + 1


def test_steps_around_an_assertion_fuse():
    x = torch.rand(3, 40)
    library = ts.compile(Classes(), (x,), config=ts.Config(measure=False))
    assert torch.equal(library(x), Classes()(x))
    assert len(library.kernels) <= 8
    with pytest.raises(Exception, match="smaller than num_classes"):
        library(x + 2)
