"""A layer with its input as a case of the zoo, and layers that PyTorch has no module for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One layer with the shape of its input; ``integers`` is the number of table rows, if any."""

    kind: str
    label: str
    build: Callable[[], nn.Module]
    shape: Shape
    integers: int = 0

    def made(self) -> tuple[nn.Module, torch.Tensor]:
        """Return the layer and an input, drawn from a seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = self.build().eval()
            if self.integers:
                return module, torch.randint(0, self.integers, self.shape)
            return module, torch.randn(self.shape)


class Apply(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        """Return the result."""
        return self.function(x)


class First(nn.Module):
    """The first result of a module that returns several."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        return self.inner(x)[0]


class Weighted(nn.Module):
    """A function of an input and a weight of some shape."""

    def __init__(self, function: Callable[..., torch.Tensor], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(shape) / shape[-1] ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        return self.function(x, self.weight)


class Transposed(nn.Module):
    """A linear layer that stores its weight as ``(in, out)``, as GPT-2 does."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        rows = x.view(-1, x.shape[-1])
        return torch.addmm(self.bias, rows, self.weight).view(*x.shape[:-1], -1)


class Tied(nn.Module):
    """An embedding whose table is the head's weight too."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        return F.linear(self.table(tokens), self.table.weight)


class Bag(nn.Module):
    """An embedding bag over the rows of a batch."""

    def __init__(self, rows: int, width: int, mode: str) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(rows, width, mode=mode)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        return self.bag(tokens)


class Pairs(nn.Module):
    """A bilinear layer of an input with itself."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__()
        self.layer = nn.Bilinear(width, width, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result."""
        return self.layer(x, x)


def layers(
    kind: str, layer: Callable[..., nn.Module], *cases: tuple[tuple[Any, ...], Shape]
) -> Iterator[Case]:
    """Yield a layer with some arguments for an input of some shape."""
    for arguments, shape in cases:
        yield Case(kind, _label(arguments, shape), lambda a=arguments: layer(*a), shape)


def functions(kind: str, function: Callable[[torch.Tensor], Any], *shapes: Shape) -> Iterator[Case]:
    """Yield a function of inputs of some shapes."""
    for shape in shapes:
        label = "x".join(map(str, shape))
        yield Case(kind, label, lambda: Apply(function), shape)


def tables(
    kind: str, layer: Callable[..., nn.Module], *cases: tuple[tuple[Any, ...], Shape]
) -> Iterator[Case]:
    """Yield a layer that looks rows up, whose number is its first argument."""
    for arguments, shape in cases:
        label = _label(arguments, shape)
        yield Case(kind, label, lambda a=arguments: layer(*a), shape, arguments[0])


def _label(arguments: tuple[Any, ...], shape: Shape) -> str:
    return f"{', '.join(map(str, arguments))} on {'x'.join(map(str, shape))}"
