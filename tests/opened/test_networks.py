"""Random networks with open extents: right at every extent, in memory full of NaN, or refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import tvm_sparse as ts
from tests.opened.case import OpenCase
from tests.opened.judged import CONFIG, check, compiled, far, in_bytes
from tests.opened.planes import random_planes
from tests.opened.sequences import random_sequence

ALL = 200

NETWORKS = [random_planes, random_sequence]


@pytest.fixture(autouse=True)
def _without_onednn():
    """Let PyTorch compute convolutions itself: oneDNN ends the process on some small planes."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def seeds(quick: int) -> list[Any]:
    """Return a seed of every run, and those of slow ones."""
    slow = [seed for seed in range(ALL) if seed != quick]
    return [quick, *(pytest.param(seed, marks=pytest.mark.slow) for seed in slow)]


def traced(case: OpenCase) -> OpenCase:
    """Return the case with least extents at which PyTorch traces it for any; else skip the test.

    It wants extents inside a network to be two or more, and to prove what it compares.
    """
    found = "no extents are tried"
    for least in (0, 3, 5, 9, 13):
        limits = {
            name: (low if name == "batch" else max(low, min(least, case.example[name])), high)
            for name, (low, high) in case.limits.items()
        }
        tried = replace(case, limits=limits)
        try:
            inputs, shapes = case.inputs(case.example), tried.dynamic()
            ts.load(case.model, inputs, dynamic_shapes=shapes)
        except ts.InputError as error:
            if "cannot leave these extents open" not in (found := str(error)):
                raise
        else:
            return tried
    pytest.skip(f"PyTorch leaves no extents open: {case.steps}, {found}")


@pytest.mark.grid
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("network", NETWORKS)
def test_small_integers_are_exact(network, seed):
    case = traced(network(seed, exact=True))
    library = compiled(case)
    check(case, library, lambda x, y: not torch.equal(y, case.model(*x)), seed)


@pytest.mark.grid
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("network", NETWORKS)
def test_real_numbers(network, seed):
    case = traced(network(seed))
    library = compiled(case)
    check(case, library, far(case.model), seed)
    extents = case.extents(np.random.default_rng(seed))[seed % 5]
    closed = ts.compile(case.model, case.inputs(extents), config=CONFIG)
    assert not far(case.model)(case.inputs(extents), closed(*case.inputs(extents)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ALL // 4))
@pytest.mark.parametrize("network", NETWORKS)
def test_halves(network, seed):
    case = traced(network(seed))
    model = copy.deepcopy(case.model).half()
    inputs = tuple(x.half() for x in case.inputs(case.example))
    library = compiled(case, model=model, example_inputs=inputs)
    check(case, library, far(model, 4 * torch.finfo(torch.float16).eps), seed)


@pytest.mark.slow
@pytest.mark.isa("avx512bf16", "avx512vbmi")
@pytest.mark.parametrize("seed", range(ALL // 4))
@pytest.mark.parametrize("network", NETWORKS)
def test_products_of_bfloat16(network, seed):
    case = traced(network(seed, exact=True))
    library = compiled(case, precision="bfloat16")
    check(case, library, lambda x, y: not torch.equal(y, case.model(*x)), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ALL // 2))
@pytest.mark.parametrize("network", NETWORKS)
def test_bytes(network, seed):
    case = traced(network(seed))
    check(case, *in_bytes(case), seed)
