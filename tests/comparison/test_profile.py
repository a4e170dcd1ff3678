"""Kernels in call order, with their layers and schedule rules."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.comparison.profile import profile, timed
from tvm_sparse_runtime.errors import TensorError


def test_every_kernel_is_named_and_timed():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 25, 8)
    ).eval()
    x = torch.randn(1, 16, 5, 5)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    kernels = library.profile(x, repeat=3)
    rules = [(k.layer, k.rule) for k in kernels if k.layer]
    assert rules == [("0", "Winograd"), ("3", "Contraction")]
    assert all(k.us > 0 and k.rule for k in kernels)


def test_whole_runs_are_timed_with_their_kernels():
    model, x = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)), torch.randn(64, 64)
    library = ts.compile(model.eval(), (x,), config=ts.Config(measure=False))
    kernels, total = timed(library, (x,), repeat=3)
    assert len(kernels) == len(library.kernels)
    assert total > 0


def test_a_program_of_which_no_specification_is_left_is_timed():
    """Benchmarks keep what runs, and no more."""
    model, x = nn.Linear(64, 32).eval(), torch.randn(4, 64)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    kept = ("executable", "weights", "kernels", "target")
    kernels, total = timed(SimpleNamespace(**{n: getattr(library, n) for n in kept}), (x,), 3)
    assert len(kernels) == len(library.kernels)
    assert total > 0


def test_tensors_of_torch_may_be_bfloat16():
    model, x = nn.Linear(32, 16).bfloat16().eval(), torch.randn(4, 32).bfloat16()
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    assert [k.us for k in library.profile(x, repeat=1)]


def test_arguments_may_be_named():
    class Sum(nn.Module):
        def forward(self, first, second):
            return torch.cumsum(first, 1) + second

    first, second = torch.randn(64, 64), torch.randn(64, 64)
    library = ts.compile(Sum(), (first, second), config=ts.Config(measure=False))
    assert library.structure is None
    kernels = library.profile(second=second, first=first, repeat=3)
    assert len(kernels) == len(library.kernels)


@pytest.mark.parametrize("times", [profile, timed])
def test_kernels_of_a_gpu_are_not_timed_one_by_one(times):
    library = SimpleNamespace(target=parse_target("cuda:sm_90").target)
    with pytest.raises(ts.UnsupportedError, match="run in a CUDA graph"):
        times(library, [])


@pytest.mark.parametrize(
    "inputs",
    [
        (),
        (torch.randn(4, 32), torch.randn(4, 32)),
        (torch.randn(4, 31),),
        (torch.randn(4, 32).double(),),
        (torch.randn(9, 32),),
    ],
)
def test_inputs_are_those_of_a_call(inputs):
    model = nn.Linear(32, 16).eval()
    rows = torch.export.Dim("rows", max=8)
    examples, config = (torch.randn(4, 32),), ts.Config(measure=False)
    library = ts.compile(model, examples, dynamic_shapes=({0: rows},), config=config)
    with pytest.raises(TensorError) as called:
        library(*inputs)
    with pytest.raises(TensorError) as profiled:
        library.profile(*inputs)
    assert str(profiled.value) == str(called.value)
