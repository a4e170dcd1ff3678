"""Numbers that a model makes itself are converted as those of tensors are."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.edges import Uses, wrong
from tvm_sparse.testing import emulate

NUMBERS = (0, 1, 2, 256, -3, 1 << 40, 0.5, -0.25, -0.0, 1e30, torch.inf, torch.nan)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLAGS = torch.tensor([True, False])


def truth(number, x):
    return torch.full((2,), number).bool() ^ x


def of_double(number, x):
    return (torch.full((), True) * number).bool() ^ x


TRUTHS = {
    **{f"full of {n}": functools.partial(truth, n) for n in NUMBERS},
    **{f"product with {n}": functools.partial(of_double, n) for n in NUMBERS},
    "not": lambda x: torch.logical_not(torch.full((2,), 0.5)) ^ x,
    "and": lambda x: torch.logical_and(torch.full((2,), 0.5), x),
    "sum with a factor": lambda x: torch.add(x, True, alpha=2),
}


def test_any_number_but_zero_is_true():
    assert wrong(TRUTHS, FLAGS) == {}


@needs_nvrtc
def test_any_number_but_zero_is_true_on_gpus():
    library = ts.compile(Uses(TRUTHS), (FLAGS,), target="cuda:sm_90")
    emulation = emulate(library, FLAGS.numpy())
    assert not emulation.report.findings
    wanted = Uses(TRUTHS)(FLAGS).values()
    for y, expected in zip(emulation.outputs, wanted, strict=True):
        assert torch.equal(torch.from_numpy(y), expected)


def wrapped(number, before, after, x):
    return torch.full((2,), number, dtype=before).to(after) ^ x.to(after)


@pytest.mark.parametrize("before", INTEGERS)
def test_integers_keep_their_last_bits(before):
    bounds = torch.iinfo(before)
    numbers = {bounds.min, bounds.max, bounds.max // 2 + 3, max(bounds.min, -3)}
    uses = {
        f"{n} as {after}": functools.partial(wrapped, n, before, after)
        for n, after in itertools.product(sorted(numbers), INTEGERS)
        if after != before
    }
    assert wrong(uses, torch.tensor([1, 0])) == {}
    every = torch.tensor([*numbers, 0, 1], dtype=before)
    converted = {str(t): functools.partial(torch.Tensor.to, dtype=t) for t in INTEGERS}
    assert wrong(converted, every) == {}
