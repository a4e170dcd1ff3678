"""Random networks with open extents: right at every extent, in memory full of NaN, or refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tvm_sparse as ts
from tests.opened import poisoned
from tests.opened.case import OpenCase
from tests.opened.planes import random_planes
from tests.opened.sequences import random_sequence
from tvm_sparse_runtime import TensorError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
BOUND = 1e-5
NOISE = 3e-5
"""What norms of planes of one value give instead of zeros: rounding, divided by nearly nothing."""
ALL = 200

NETWORKS = [random_planes, random_sequence]

Wrong = Callable[[tuple[Tensor, ...], Tensor], bool]
"""Whether a result of inputs is wrong."""


@pytest.fixture(autouse=True)
def _without_onednn():
    """Let PyTorch compute convolutions itself: oneDNN ends the process on some small planes."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def seeds(quick: int) -> list[Any]:
    """Return a seed of every run, and those of slow ones."""
    slow = [seed for seed in range(ALL) if seed != quick]
    return [quick, *(pytest.param(seed, marks=pytest.mark.slow) for seed in slow)]


def compiled(case: OpenCase, **options: Any) -> Any:
    """Return the library of a network with its open extents."""
    given = {"model": case.model, "example_inputs": case.inputs(case.example), "config": CONFIG}
    return ts.compile(**(given | options), dynamic_shapes=case.dynamic())


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


def check(case: OpenCase, library: Any, wrong: Wrong, seed: int) -> None:
    """Run the library at many extents, in poisoned memory too; ``wrong(inputs, result)`` judges."""
    rng = np.random.default_rng(seed)
    most = {name: most for name, (_, most) in case.limits.items()}
    dtype = getattr(torch, library.inputs[0].dtype)
    for index, extents in enumerate(case.extents(rng)):
        library(*(x.to(dtype) * torch.nan for x in case.inputs(most)))
        inputs = tuple(x.to(dtype) for x in case.inputs(extents, seed + index))
        found = library(*inputs)
        assert not wrong(inputs, found), (case.steps, extents)
        if index % 2 == 0:
            (again,) = poisoned.run(library, inputs)
            assert np.array_equal(again, found.numpy(), equal_nan=True), (case.steps, extents)
    for name, extent in most.items():
        with pytest.raises(TensorError, match=f"{name} = .*to {extent}"):
            library(*(x.to(dtype) for x in case.inputs({**most, name: extent + 1})))


def far(model: torch.nn.Module, bound: float = BOUND) -> Wrong:
    """Return what tells whether a result is much farther from the exact one than PyTorch's."""
    exactly = copy.deepcopy(model).double()

    def wrong(inputs: tuple[Tensor, ...], found: Tensor) -> bool:
        exact, eager = exactly(*(x.double() for x in inputs)), model(*inputs).double()
        if found.shape != exact.shape or not found.isfinite().all():
            return True
        own, scale = (eager - exact).abs().max(), exact.abs().max()
        return float((found.double() - exact).abs().max()) > bound * max(1e-3, scale) + 4 * own

    return wrong


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
    inputs = [case.inputs(case.example, seed) for seed in range(3)]
    program = ts.quantize(case.model, inputs, dynamic_shapes=case.dynamic())
    library = ts.compile(program, config=CONFIG)
    module = program.module(check_guards=False)

    def wrong(x: tuple[Tensor, ...], found: Tensor) -> bool:
        """Whether more than some bytes fell to another side, or any far away."""
        expected = module(*x)
        error, scale = (found - expected).abs(), expected.abs().max()
        error = (error - NOISE).clamp(min=0)
        return bool((error > 1e-3 * scale).float().mean() > 0.03 or error.max() > 0.1 * scale)

    check(case, library, wrong, seed)
