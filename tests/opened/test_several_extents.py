"""What operators ask of a sum of open extents: sizes at which PyTorch fails are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

import tvm_sparse as ts
from tests.opened.judged import CONFIG
from tvm_sparse_runtime import SparseRuntimeError

TABLE = torch.randn(1, 20, 4)
STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows of a table": lambda z: z + TABLE[:, : z.shape[1]],
    "last rows of a table": lambda z: TABLE[:, z.shape[1] - 2 :].sum(1),
    "row": lambda z: z[:, 12],
    "row from the end": lambda z: z[:, -12],
    "rows": lambda z: z.narrow(1, 3, 9),
    "rows at most": lambda z: z[:, :15] * 2,
    "rows behind": lambda z: z[:, 11:] * 2,
    "largest": lambda z: z.topk(10, 1).values,
    "convolution": lambda z: F.conv1d(z.transpose(1, 2), torch.ones(4, 4, 9)),
    "pooling": lambda z: F.max_pool1d(z.transpose(1, 2), 9, 2),
    "windows": lambda z: z.unfold(1, 12, 2),
    "view": lambda z: z.reshape(1, -1, 2),
    "padding": lambda z: F.pad(z, (0, 0, 0, 20 - z.shape[1])) + TABLE,
}


class Both(nn.Module):
    """A step of two sequences behind one another."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = STEPS[step]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.step(torch.cat([x, y], 1))


def example(step: str) -> tuple[nn.Module, tuple[Tensor, ...], Any]:
    """Return what is compiled: 13 rows together, of which there is one window."""
    shapes = tuple({1: Dim(name, min=1, max=16)} for name in "ab")
    inputs = (torch.randn(1, 5, 4), torch.randn(1, 8, 4))
    return Both(step).eval(), inputs, shapes


def check(library: Any, theirs: Callable[..., Tensor], sizes: Iterable[tuple[int, int]]) -> None:
    """Compare with what PyTorch gives, and with what it refuses."""
    for first, second in sizes:
        given = (torch.randn(1, first, 4), torch.randn(1, second, 4))
        try:
            expected = theirs(*given)
        except (RuntimeError, IndexError, AssertionError):
            with pytest.raises(SparseRuntimeError, match="traced where"):
                library(*given)
        else:
            torch.testing.assert_close(library(*given), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("step", STEPS)
def test_sizes_are_those_of_eager(step):
    model, inputs, shapes = example(step)
    library = ts.compile(model, inputs, dynamic_shapes=shapes, config=CONFIG)
    sizes = ((5, 8), (1, 1), (2, 3), (4, 4), (3, 8), (7, 7), (10, 10), (12, 12), (16, 16))
    check(library, model, sizes)


@pytest.mark.parametrize("step", ["rows of a table", "row", "convolution", "windows"])
def test_sizes_of_an_exported_program_are_those_of_pytorch(step):
    """What PyTorch traced for one window is refused where there are two: it refuses that, too."""
    model, inputs, shapes = example(step)
    program = torch.export.export(model, inputs, dynamic_shapes=shapes)
    library = ts.compile(program, config=CONFIG)
    check(library, program.module(), ((5, 8), (1, 1), (4, 4), (3, 8), (7, 7), (12, 12)))


OF_BOTH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rows of a product": lambda x, y: TABLE[0].reshape(-1).narrow(0, 0, x.shape[1] * y.shape[1]),
    "largest of a product": lambda x, y: pairs(x, y).topk(36).values,
    "windows of a product": lambda x, y: pairs(x, y).unfold(0, 40, 2),
    "rows of a quotient": lambda x, y: TABLE[0, :, 0].narrow(0, 0, 10 * y.shape[1] // x.shape[1]),
    "row at a product": lambda x, y: TABLE[0, x.shape[1] * y.shape[1] // 4] + y,
    "row at a sum": lambda x, y: TABLE[:, x.shape[1] + y.shape[1]],
    "row from the end": lambda x, y: TABLE[:, -x.shape[1] - y.shape[1]],
    "rest of a quotient": lambda x, y: TABLE[0, :, 0].narrow(0, 0, 9 + y.shape[1] % x.shape[1]),
}


def pairs(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of each row of ``x`` with each of ``y``."""
    return (x[0, :, :1] * y[0, :, 0]).reshape(-1)


class OfBoth(nn.Module):
    """A step of two sequences."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = OF_BOTH[step]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.step(x, y) * 2 + x.sum() * 0


@pytest.mark.parametrize("step", OF_BOTH)
def test_products_and_quotients(step):
    """Sizes at which PyTorch fails are refused; few others are."""
    _, inputs, shapes = example("rows")
    library = ts.compile(OfBoth(step), inputs, dynamic_shapes=shapes, config=CONFIG)
    for first, second in ((5, 8), (1, 1), (2, 5), (4, 4), (3, 16), (12, 12), (16, 16), (9, 5)):
        given = (torch.randn(1, first, 4), torch.randn(1, second, 4))
        try:
            expected = OfBoth(step)(*given)
        except (RuntimeError, IndexError):
            with pytest.raises(SparseRuntimeError, match="traced where"):
                library(*given)
        else:
            torch.testing.assert_close(library(*given), expected, rtol=1e-5, atol=1e-5)
