"""Each operator in each of its numbers with each axis open: right at every extent to the bound."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tvm_sparse as ts
from tests.modules import Apply
from tests.opened.case import OpenCase
from tests.opened.judged import check, compiled, far, in_bytes
from tests.opened.layers import Rows
from tests.random_sequences import Attention, Recurrent

MOST = 40
EXAMPLE = 22

Shape = Sequence[int | str]

PLANES: dict[str, list[Shape]] = {
    "batch": [["n", 16, 9, 11]],
    "height": [[2, 16, "n", 11]],
    "width": [[2, 16, 9, "n"]],
}
LINES: dict[str, list[Shape]] = {"batch": [["n", 16, 20]], "length": [[2, 16, "n"]]}
ROWS: dict[str, list[Shape]] = {"rows": [["n", 32]]}
TOKENS: dict[str, list[Shape]] = {"batch": [["n", 9, 32]], "length": [[2, "n", 32]]}
FIELDS = PLANES | {"batch and height": [["n", 16, "m", 11]]}
SEQUENCES: dict[str, list[Shape]] = {"batch and length": [["n", "m", 32]]}
PAIRS: dict[str, list[Shape]] = {"lengths": [[2, "n", 32], [2, "m", 32]]}


class Joined(nn.Module):
    """Two sequences of open lengths behind one another: their sum is open."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 24)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``(batch, first length + second length, 24)``."""
        return self.layer(torch.cat([x, y], 1))


class Paired(nn.Module):
    """A recurrent layer of sequences and of the same backwards, in one batch of twice as many."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(2 * batch, steps, features)``."""
        return self.layer(torch.cat([x, x.flip(1)]))[0]


class Across(nn.Module):
    """Attention of one sequence to another."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Linear(32, 32)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        return torch.softmax(x @ self.keys(y).transpose(1, 2) / 8, -1) @ y


class Continued(nn.Module):
    """A border by which planes become multiples of four, between what stands on both sides."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode, self.layer = mode, nn.Conv2d(16, 24, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(batch, 24, …, …)``."""
        height, width = x.shape[2:]
        amounts = (2, 2 + -width % 4, 1, 1 + -height % 4)
        return self.layer(F.pad(x, amounts, self.mode))


@dataclass(frozen=True)
class Operator:
    """A layer, the shapes of its inputs by the axis that is open, and what is known of it."""

    layer: Callable[[], nn.Module]
    axes: dict[str, list[Shape]]
    sums: bool = False
    """Whether it multiplies and adds alone, which is exact of small integers."""
    pruned: bool = False
    least: int = 1

    def case(self, axis: str, *, exact: bool = False) -> OpenCase:
        """Return the operator with one open axis, of small integers if it is to be exact."""
        torch.manual_seed(0)
        model = self.layer().eval().requires_grad_(False)
        if exact:
            for parameter in model.parameters():
                parameter.copy_(torch.randint(-3, 4, parameter.shape))
        if self.pruned:
            ts.prune.balanced(model, 0.75).squash_mask()
        shapes = [list(shape) for shape in self.axes[axis]]
        names = sorted({e for shape in shapes for e in shape if isinstance(e, str)})
        limits = {name: (self.least, MOST) for name in names}
        return OpenCase(model, shapes, limits, dict.fromkeys(names, EXAMPLE), exact)


OPERATORS = {
    "linear": Operator(lambda: nn.Linear(32, 40), ROWS | TOKENS, sums=True),
    "linear, pruned": Operator(lambda: nn.Linear(32, 64), ROWS | TOKENS, sums=True, pruned=True),
    "conv": Operator(lambda: nn.Conv2d(16, 32, 3, padding=1), PLANES, sums=True),
    "conv, pruned": Operator(lambda: nn.Conv2d(16, 32, 3, 1, 1), PLANES, sums=True, pruned=True),
    "conv, strided": Operator(lambda: nn.Conv2d(16, 24, 3, 2, 1), PLANES, sums=True),
    "conv, pointwise": Operator(lambda: nn.Conv2d(16, 32, 1), PLANES, sums=True),
    "conv, depthwise": Operator(lambda: nn.Conv2d(16, 16, 3, 1, 1, groups=16), PLANES, sums=True),
    "conv, transposed": Operator(lambda: nn.ConvTranspose2d(16, 8, 4, 2, 1), PLANES, sums=True),
    "conv of lines": Operator(lambda: nn.Conv1d(16, 24, 5, padding=2), LINES, sums=True),
    "largest": Operator(lambda: nn.MaxPool2d(3, 2, 1), PLANES, sums=True),
    "mean": Operator(lambda: nn.AvgPool2d(2), PLANES, sums=True, least=2),
    "mean of planes": Operator(lambda: nn.AdaptiveAvgPool2d(1), PLANES),
    "resized, nearest": Operator(lambda: nn.Upsample(scale_factor=2), PLANES, sums=True),
    "resized": Operator(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), PLANES),
    "reflected": Operator(lambda: nn.ReflectionPad2d(2), PLANES, sums=True, least=3),
    **{
        f"to a multiple, {mode}": Operator(
            functools.partial(Continued, mode), {"width": PLANES["width"]}, sums=True, least=least
        )
        for mode, least in (("constant", 1), ("reflect", 6), ("replicate", 1), ("circular", 5))
    },
    "group norm": Operator(lambda: nn.GroupNorm(4, 16), PLANES),
    "layer norm": Operator(lambda: nn.LayerNorm(32), ROWS | TOKENS),
    "softmax": Operator(lambda: nn.Softmax(-1), ROWS | TOKENS),
    "softmax along": Operator(lambda: nn.Softmax(1), TOKENS),
    "gelu": Operator(nn.GELU, ROWS | TOKENS),
    "attention": Operator(lambda: Attention(32, 4, causal=False), TOKENS),
    "attention, causal": Operator(lambda: Attention(32, 4, causal=True), TOKENS),
    "attention across": Operator(Across, PAIRS),
    "lstm": Operator(lambda: Recurrent(nn.LSTM(32, 24, batch_first=True)), TOKENS),
    "gru": Operator(lambda: Recurrent(nn.GRU(32, 24, batch_first=True)), TOKENS),
    "lstm of rows": Operator(lambda: Rows(Recurrent(nn.LSTM(16, 24, batch_first=True))), FIELDS),
    "gru of rows": Operator(lambda: Rows(Recurrent(nn.GRU(16, 24, batch_first=True))), FIELDS),
    "lstm of pairs": Operator(lambda: Paired(nn.LSTM(32, 24, batch_first=True)), SEQUENCES),
    "gru of pairs": Operator(lambda: Paired(nn.GRU(32, 24, batch_first=True)), SEQUENCES),
    "transposed": Operator(lambda: Apply(lambda x: x.transpose(1, 2) * 2), TOKENS, sums=True),
    "products": Operator(lambda: Apply(lambda x: x @ x.transpose(1, 2)), TOKENS, sums=True),
    "sum along": Operator(lambda: Apply(lambda x: x.sum(1)), TOKENS, sums=True),
    "cumulative": Operator(lambda: Apply(lambda x: x.cumsum(1)), TOKENS, sums=True),
    "padded": Operator(lambda: nn.ZeroPad2d((1, 2, 0, 3)), PLANES, sums=True),
    "joined": Operator(Joined, PAIRS, sums=True),
}

QUICK = {
    ("linear, pruned", "length"),
    ("conv", "width"),
    ("softmax", "length"),
}
"""What every run of the tests tries; the others are slow."""


def table(*, sums: bool = False, quick: bool = True) -> list[Any]:
    """Return each operator and each of its axes; those that are exact of integers if ``sums``."""
    return [
        pytest.param(
            name,
            axis,
            marks=[] if quick and (name, axis) in QUICK else [pytest.mark.slow],
            id=f"{name}-{axis}",
        )
        for name, operator in OPERATORS.items()
        if operator.sums or not sums
        for axis in operator.axes
    ]


@pytest.mark.grid
@pytest.mark.parametrize(("name", "axis"), table(sums=True))
def test_integers_are_exact(name, axis):
    """Sums of small integers are those of the closed program, and of PyTorch, bit for bit."""
    case = OPERATORS[name].case(axis, exact=True)
    check(case, compiled(case), lambda x, y: not torch.equal(y, case.model(*x)), 0)


@pytest.mark.grid
@pytest.mark.parametrize(("name", "axis"), table())
def test_floats(name, axis):
    case = OPERATORS[name].case(axis)
    check(case, compiled(case), far(case.model), 0)


@pytest.mark.parametrize(("name", "axis"), table(quick=False))
def test_halves(name, axis):
    case = OPERATORS[name].case(axis)
    model = copy.deepcopy(case.model).half()
    inputs = tuple(x.half() for x in case.inputs(case.example))
    library = compiled(case, model=model, example_inputs=inputs)
    check(case, library, far(model, 4 * torch.finfo(torch.float16).eps), 0)


@pytest.mark.isa("avx512bf16", "avx512vbmi")
@pytest.mark.parametrize(("name", "axis"), table(sums=True, quick=False))
def test_products_of_bfloat16(name, axis):
    case = OPERATORS[name].case(axis, exact=True)
    library = compiled(case, precision="bfloat16")
    check(case, library, lambda x, y: not torch.equal(y, case.model(*x)), 0)


@pytest.mark.parametrize(("name", "axis"), table(quick=False))
def test_bytes(name, axis):
    """The operator stands behind a layer, whose results are bytes."""
    case = OPERATORS[name].case(axis)
    if len(case.shapes) == 1:
        features = case.shapes[0][-1 if case.shapes[0][-1] == 32 else 1]
        kinds = {2: nn.Linear, 3: nn.Linear if features == 32 else nn.Conv1d, 4: nn.Conv2d}
        kind, more = kinds[len(case.shapes[0])], () if features == 32 else (1,)
        case.model = nn.Sequential(kind(features, features, *more), nn.ReLU(), case.model)
    case.model.eval().requires_grad_(False)
    check(case, *in_bytes(case), 0)
