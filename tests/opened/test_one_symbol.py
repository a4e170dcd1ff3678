"""One open extent that several axes have, of one input or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

import tvm_sparse as ts
from tests.opened.case import OpenCase
from tests.opened.judged import CONFIG, check, compiled, far, in_bytes
from tests.random_sequences import Attention, Recurrent

PLANES = ["s", 16, "s", "s"]
TOKENS = ["s", "s", 16]


class Network(nn.Module):
    """Convolutions of each sort, and what else reads planes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 32, 1), nn.ReLU()),
            *(nn.Conv2d(32, 24, 3, 2, 1), nn.MaxPool2d(3, 1, 1), nn.ConvTranspose2d(24, 16, 2, 2)),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return planes of 16 channels."""
        return self.layers(x)


class Both(nn.Module):
    """A layer of two inputs, whose results are added."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return what the layer makes of one."""
        return self.layer(x) + self.layer(y)


class Behind(Both):
    """A layer of two sequences behind one another: one axis is twice another."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return a tensor of twice the steps."""
        return self.layer(torch.cat([x, y], 1))


CASES: dict[str, tuple[Callable[[], nn.Module], Sequence[list[int | str]]]] = {
    "network": (Network, [PLANES]),
    "conv of batch and height": (lambda: nn.Conv2d(16, 16, 3, 1, 1), [["s", 16, "s", 11]]),
    "conv of batch and width": (lambda: nn.Conv2d(16, 16, 3, 1, 1), [["s", 16, 11, "s"]]),
    "conv of lines": (lambda: nn.Conv1d(16, 24, 3, 1, 1), [["s", 16, "s"]]),
    "conv of cubes": (lambda: nn.Conv3d(16, 8, 3, 1, 1), [["s", 16, 3, "s", "s"]]),
    "conv of both": (lambda: Both(nn.Conv2d(16, 16, 3, 1, 1)), [PLANES, PLANES]),
    "linear": (lambda: nn.Linear(16, 24), [TOKENS]),
    "linear of both": (lambda: Behind(nn.Linear(16, 24)), [TOKENS, TOKENS]),
    "attention": (lambda: Attention(16, 2, causal=True), [TOKENS]),
    "attention of both": (lambda: Behind(Attention(16, 2, causal=False)), [TOKENS, TOKENS]),
    "lstm": (lambda: Recurrent(nn.LSTM(16, 8, batch_first=True)), [TOKENS]),
    "lstm of both": (lambda: Behind(Recurrent(nn.LSTM(16, 8, batch_first=True))), [TOKENS, TOKENS]),
}
QUICK = {"conv of batch and height", "linear of both"}
ALL = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def case_of(name: str) -> OpenCase:
    """Return a case of :data:`CASES`, pruned."""
    torch.manual_seed(0)
    make, shapes = CASES[name]
    model = make().eval().requires_grad_(False)
    ts.prune.balanced(model, 0.5).squash_mask()
    return OpenCase(model, list(shapes), {"s": (2, 24)}, {"s": 6}, exact=False)


@pytest.mark.grid
@pytest.mark.parametrize("name", ALL)
def test_floats(name):
    case = case_of(name)
    check(case, compiled(case), far(case.model), 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bytes(name):
    case = case_of(name)
    check(case, *in_bytes(case), 0)


class Tied(nn.Module):
    """One layer of two inputs: equal extents of one are two of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 24)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the layer makes of each, and something of it."""
        return self.layer(x) * 2, self.layer(y) * 3


@pytest.mark.grid
@pytest.mark.parametrize("first", [0, 1])
def test_tied_layers_of_equal_and_of_other_extents(first):
    """A kernel for equal extents was taken for others, too, and TVM fused neither."""
    torch.manual_seed(0)
    b, t, s = (torch.export.Dim(name, min=1, max=40) for name in "bts")
    order = [(torch.randn(3, 5, 16), {0: b, 1: t}), (torch.randn(4, 4, 16), {0: s, 1: s})]
    examples, shapes = zip(*(order[::-1] if first else order), strict=True)
    model = Tied().eval().requires_grad_(False)
    library = ts.compile(model, examples, dynamic_shapes=shapes, config=CONFIG)
    inputs = [torch.randn(7, 9, 16), torch.randn(11, 11, 16)][:: -1 if first else 1]
    for found, expected in zip(library(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_what_reads_a_pooled_batch_of_squares():
    """A pool whose result had another name of the extent was not fused: TVM refused it."""
    torch.manual_seed(0)
    layers = nn.Conv2d(4, 8, 3, 2, 1), nn.MaxPool2d(3, 1, 1), nn.Tanh(), nn.Conv2d(8, 4, 1)
    model = nn.Sequential(*layers).eval().requires_grad_(False)
    dims = dict.fromkeys((0, 2, 3), torch.export.Dim("s", min=2, max=24))
    library = ts.compile(model, (torch.randn(6, 4, 6, 6),), dynamic_shapes=(dims,), config=CONFIG)
    for extent in (2, 7, 24):
        x = torch.randn(extent, 4, extent, extent)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
