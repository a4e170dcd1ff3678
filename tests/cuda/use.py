"""One function of a test, compiled for GPUs and executed on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import tvm_sparse as ts
from tests.emulation.exact import array
from tvm_sparse.testing import emulate

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Use(nn.Module):
    """A network that is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Return what the function returns."""
        return self.function(*inputs)


def assert_equal_on_gpu(function: Callable[..., Any], *inputs: Tensor) -> None:
    """Fail unless PTX computes what PyTorch does, each tensor exactly, without findings."""
    model = Use(function)
    library = ts.compile(model, inputs, target="cuda:sm_90", config=CONFIG)
    found = emulate(library, *map(array, inputs))
    assert not found.report.findings, found.report.findings
    wanted = model(*inputs)
    wanted = wanted if isinstance(wanted, Sequence) else [wanted]
    for ours, theirs in zip(found.outputs, wanted, strict=True):
        assert torch.equal(
            torch.from_numpy(ours.astype("f8")).nan_to_num(7e77), theirs.double().nan_to_num(7e77)
        )
