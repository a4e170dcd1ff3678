"""A library with open extents, run at many of them: what is right, and what is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tvm_sparse as ts
from tests.opened import poisoned
from tests.opened.case import OpenCase
from tvm_sparse_runtime import SparseRuntimeError, TensorError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
BOUND = 1e-5
NOISE = 3e-5
"""What norms of planes of one value give instead of zeros: rounding, divided by nearly nothing."""
Wrong = Callable[[tuple[Tensor, ...], Tensor], bool]
"""Whether a result of inputs is wrong."""


def compiled(case: OpenCase, **options: Any) -> Any:
    """Return the library of a network with its open extents."""
    given = {"model": case.model, "example_inputs": case.inputs(case.example), "config": CONFIG}
    return ts.compile(**(given | options), dynamic_shapes=case.dynamic())


def check(case: OpenCase, library: Any, wrong: Wrong, seed: int) -> None:
    """Run the library at many extents, in poisoned memory too; ``wrong(inputs, result)`` judges."""
    rng = np.random.default_rng(seed)
    most = {name: most for name, (_, most) in case.limits.items()}
    dtype = getattr(torch, library.inputs[0].dtype)
    for index, extents in enumerate(case.extents(rng)):
        with suppress(SparseRuntimeError):  # of a table that has fewer rows
            library(*(x.to(dtype) * torch.nan for x in case.inputs(most)))
        inputs = tuple(x.to(dtype) for x in case.inputs(extents, seed + index))
        if _fails(case.model, inputs):
            with pytest.raises(SparseRuntimeError, match="traced where"):
                library(*inputs)
            continue
        found = library(*inputs)
        assert not wrong(inputs, found), (case.steps, extents)
        if index % 2 == 0:
            (again,) = poisoned.run(library, inputs)
            assert np.array_equal(again, found.numpy(), equal_nan=True), (case.steps, extents)
    for name, extent in most.items():
        with pytest.raises(TensorError, match=f"{name} = .*to {extent}"):
            library(*(x.to(dtype) for x in case.inputs({**most, name: extent + 1})))


def _fails(model: torch.nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether the model itself refuses inputs."""
    plain = next((p.dtype for p in model.parameters()), torch.float32)
    try:
        with torch.no_grad():
            model(*(x.to(plain) for x in inputs))
    except RuntimeError:
        return True
    return False


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


def in_bytes(case: OpenCase) -> tuple[Any, Wrong]:
    """Return the library of a quantized network, and what tells whether a result is wrong."""
    inputs = [case.inputs(case.example, seed) for seed in range(3)]
    program = ts.quantize(case.model, inputs, dynamic_shapes=case.dynamic())
    module = program.module(check_guards=False)

    def wrong(x: tuple[Tensor, ...], found: Tensor) -> bool:
        """Whether more than one byte, and than some, fell to another side, or any far away.

        Behind a mean, one byte moves all outputs of an item by a little.
        """
        expected = module(*x)
        error, scale = (found - expected).abs(), expected.abs().max()
        error = (error - NOISE).clamp(min=0)
        moved = (error > 5e-3 * scale).sum()
        return bool(moved > max(1, 0.03 * error.numel()) or error.max() > 0.1 * scale)

    return ts.compile(program, config=CONFIG), wrong
