"""Whose a kernel is, and which are worth a warning."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import SlowKernelWarning
from tvm_sparse.kernel import Kernel, slow_phrases


@pytest.mark.parametrize(
    ("rule", "contraction", "ours"),
    [
        ("Contraction", True, True),
        ("Generic", False, True),
        ("Generic", True, False),
        ("Written", False, True),
        (None, False, False),
    ],
)
def test_general_rules_make_everything_but_contractions_ours(rule, contraction, ours):
    assert Kernel("f", "", rule, 1.0, contraction).ours is ours


@pytest.mark.parametrize(
    ("function", "converts"),
    [
        ("fused_multiply3_quantised", True),
        ("dequantised1", True),
        ("quantise_rows", True),
        ("fused_add_multiply_quantised2", False),
        ("fused_linear_dense_uint8_rescaled_quantised", False),
        ("multiply", False),
    ],
)
def test_kernels_that_only_convert_are_known(function, converts):
    assert Kernel(function, "", "Generic").converts is converts


def test_warned_of_is_what_is_not_ours_and_takes_long():
    kernels = [
        Kernel("ours", "fc", "Contraction", 60.0, True),
        Kernel("often", "", None, 8.0),
        Kernel("often", "", None, 8.0),
        Kernel("short", "", None, 9.0),
        Kernel("rest", "", "Generic", 15.0),
    ]
    assert slow_phrases(kernels) == ["'often' has no operator of ours and takes 16% of the time"]
    assert slow_phrases([Kernel("unmeasured", "", None)]) == []


def test_compiling_warns_of_products_without_an_operator():
    model, x = nn.Linear(64, 64, dtype=torch.float64), torch.randn(8, 64, dtype=torch.float64)
    with pytest.warns(SlowKernelWarning, match="matmul.*no operator of ours"):
        library = ts.compile(model, (x,))
    assert len(library.slow) == 1
    assert not ts.compile(model, (x,), config=ts.Config(measure=False)).slow
