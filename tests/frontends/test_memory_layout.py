"""What depends on strides gives the values of PyTorch, or is refused by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.frontends.operators import Use
from tvm_sparse.errors import SparseError

CONFIG = ts.Config(sparse=False, measure=False, cache=False, tuned=False)


def _into(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.as_strided((3,), (2,), 1).mul_(5)
    return y


def _by_own_strides(x: torch.Tensor) -> torch.Tensor:
    """Return overlapping windows, as attention in chunks takes them."""
    flat = x.flatten(1)
    step, _ = flat.stride()
    return flat.as_strided((flat.shape[0], 7, 4), (step, 2, 1))


USES: dict[str, Use] = {
    "as_strided": lambda x: x.as_strided((5, 10), (4, 1)) * 2,
    "as_strided of a sum": lambda x: (x + 1).as_strided((5, 10), (4, 1)),
    "after roll": lambda x: torch.roll(x, -1, 0).as_strided((5, 10), (4, 1), 0),
    "after flip": lambda x: x.flip(1).as_strided((5, 10), (4, 1), 3),
    "after a transposition": lambda x: (x.transpose(1, 3) * 2).as_strided((3, 4), (1, 2), 3),
    "after a copy": lambda x: x.transpose(1, 3).contiguous().as_strided((3, 4), (1, 2), 3),
    "after a slice": lambda x: x[1:].as_strided((3, 4), (1, 2)),
    "after a pool": lambda x: nn.functional.max_pool2d(x, (1, 2)).as_strided((3, 4), (1, 2)),
    "after a norm": lambda x: x.softmax(1).as_strided((3, 4), (1, 2)),
    "after an index": lambda x: x[[1, 0]].as_strided((3, 4), (1, 2)),
    "after a repetition": lambda x: x.repeat(2, 1, 1, 1).as_strided((3, 4), (1, 2)),
    "after a choice": lambda x: torch.where(x > 3, x, 0.0).as_strided((3, 4), (1, 2)),
    "of own strides": _by_own_strides,
    "copy": lambda x: torch.as_strided_copy(x, (3, 4), (1, 2)),
    "scatter": lambda x: x.as_strided_scatter(torch.ones(2, 3), (2, 3), (3, 1), 1),
    "written through": _into,
    "view": lambda x: x.flatten().view(4, 25) + 1,
    "view of bits": lambda x: x.view(torch.int32),
    "unfold": lambda x: x.unfold(1, 2, 2).unfold(3, 2, 1),
    "like": lambda x: torch.ones_like(x).as_strided((3, 4), (1, 2)) + x.flatten()[0],
    "stride": lambda x: x * x.stride(1),
    "resize_": lambda x: x.clone().resize_(4, 20),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last).as_strided(
        (3, 4), (1, 2)
    ),
    "format of an operand": lambda x: (
        x + x.contiguous(memory_format=torch.channels_last)
    ).flatten(),
    "set_": lambda x: torch.ones(2, 2).set_(x.clone()) + 1,
}
LAYOUTS: dict[str, Use] = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(1, 3).contiguous().transpose(1, 3),
}
WANTED = {"as_strided", "as_strided of a sum", "of own strides", "copy", "scatter", "after a copy"}
"""Uses that must not be refused for contiguous tensors."""


class Called(nn.Module):
    def __init__(self, use: Use) -> None:
        super().__init__()
        self.use = use

    def forward(self, x):
        return self.use(x)


@pytest.mark.grid
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("use", USES)
def test_right_or_refused(use, layout):
    x = LAYOUTS[layout](torch.arange(100.0).reshape(2, 5, 2, 5))
    module = Called(USES[use])
    try:
        library = ts.compile(module, (x,), config=CONFIG)
    except SparseError as error:
        assert not (use in WANTED and layout == "contiguous"), error
        return
    torch.testing.assert_close(library(x), module(x))


@pytest.mark.grid
@pytest.mark.parametrize("use", ["after roll", "written through"])
def test_what_torch_compile_cannot_leave_to_us_is_pytorchs(use):
    x = torch.arange(100.0).reshape(2, 5, 2, 5).to(memory_format=torch.channels_last)
    module, options = Called(USES[use]), {"measure": False, "artifacts": False}
    torch._dynamo.reset()
    fast = torch.compile(module, backend="tvm_sparse", options=options)
    with torch.no_grad(), pytest.warns(UserWarning, match="leaves"):
        torch.testing.assert_close(fast(x), module(x))
