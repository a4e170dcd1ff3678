"""Norms and their statistics, far from zero too, to a fraction of the standard deviation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.edges import wrong

aten = torch.ops.aten
RAMP = torch.linspace(0.5, 1.5, 16)


def _batch_norm(x):
    zeros, ones = x.new_zeros(16), x.new_ones(16)
    weight, bias = RAMP.to(x.dtype), RAMP.to(x.dtype)
    return aten._native_batch_norm_legit_functional(x, weight, bias, zeros, ones, True, 0.1, 1e-5)


NORMS = {
    "group": lambda x: F.group_norm(x, 4, RAMP.to(x.dtype), RAMP.to(x.dtype)),
    "group of all": lambda x: F.group_norm(x, 1),
    "group of one": lambda x: F.group_norm(x, 16),
    "group without axes": lambda x: F.group_norm(x[:, :, 0, 0], 4),
    "instance": F.instance_norm,
    "instance affine": lambda x: F.instance_norm(x, weight=RAMP.to(x.dtype)),
    "instance 1-D": lambda x: F.instance_norm(x[:, :, 0]),
    "instance 3-D": lambda x: F.instance_norm(x[:, :, None]),
    "batch": lambda x: F.batch_norm(x, None, None, RAMP.to(x.dtype), training=True),
    "batch training": lambda x: _batch_norm(x)[0],
    "batch evaluation": lambda x: F.batch_norm(x - 1000, RAMP.to(x.dtype), RAMP.to(x.dtype)),
    "layer of planes": lambda x: F.layer_norm(x, (16, 12, 11)),
    "layer of short rows": lambda x: F.layer_norm(x, (11,)),
    "variance": lambda x: x.var((2, 3)),
}
STATISTICS = {
    "group mean": lambda x: torch.native_group_norm(x, None, None, 2, 16, 132, 4, 1e-5)[1],
    "group deviation": lambda x: torch.native_group_norm(x, None, None, 2, 16, 132, 4, 1e-5)[2],
    "layer mean": lambda x: torch.native_layer_norm(x, (12, 11), None, None, 1e-5)[1],
    "layer deviation": lambda x: torch.native_layer_norm(x, (12, 11), None, None, 1e-5)[2],
    **{f"batch {place}": lambda x, place=place: _batch_norm(x)[place] for place in range(1, 5)},
}


@pytest.mark.grid
@pytest.mark.parametrize("offset", [0, 1000])
def test_norms_are_those_of_the_centred_input(offset):
    x = torch.randn(2, 16, 12, 11) + offset
    assert wrong(NORMS, x, rtol=1e-5, atol=5e-5, exact=True) == {}
    assert wrong(STATISTICS, x, rtol=1e-5, atol=1e-6, exact=True) == {}


def test_layer_norm_of_long_rows_far_from_zero():
    uses = {"layer": lambda x: F.layer_norm(x, (256,))}
    assert wrong(uses, torch.randn(3, 256) + 1000, atol=5e-4, exact=True) == {}


def test_half_precision_is_summed_in_single():
    x = (torch.randn(2, 16, 12, 11) + 3).half()
    uses = {"group": lambda x: F.group_norm(x, 4), "layer": lambda x: F.layer_norm(x, (12, 11))}
    assert wrong(uses, x, rtol=2e-3, atol=2e-3) == {}
