"""Whose a kernel is, and which are worth a warning."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import SlowKernelWarning
from tvm_sparse.schedules.kernel import Kernel, slow_phrases


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
        ("fused_multiply3_quantized", True),
        ("dequantized1", True),
        ("quantize_rows", True),
        ("fused_add_multiply_quantized2", False),
        ("fused_linear_dense_uint8_rescaled_quantized", False),
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


def test_without_times_plain_loops_are_modelled():
    kernels = [
        Kernel("fast", "fc", "Contraction", contraction=True),
        Kernel("small", "", "Generic", contraction=True, products=1000),
        Kernel("large", "", "Generic", contraction=True, products=40_000),
        Kernel("large", "", "Generic", contraction=True, products=40_000),
    ]
    (phrase,) = slow_phrases(kernels)
    assert phrase == ("'large' has no operator of ours and takes 80 us by the model (not measured)")
    assert slow_phrases([Kernel("no product", "", None)]) == []


class Whole(nn.Module):
    """A product of whole numbers of 64 bits, which has no operator of ours."""

    def forward(self, a):
        return a @ a.transpose(-1, -2)


def test_products_without_an_operator_are_in_the_verdict():
    inputs = (torch.randint(-9, 9, (4, 64, 64)),)
    with pytest.warns(SlowKernelWarning, match="matmul.*no operator of ours and takes"):
        measured = ts.compile(Whole(), inputs)
    modelled = ts.compile(Whole(), inputs, config=ts.Config(measure=False))
    for library in (measured, modelled):
        (phrase,) = library.slow
        assert phrase in library.verdict()
    assert "by the model (not measured)" in modelled.verdict()
