"""Draws layers, gives them weights with zeros, and keeps those that fit behind one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.opened.case import OpenCase, smallest
from tests.random_networks import Drawn, random_mask

MOST_ELEMENTS = 60_000
MOST_BATCH = 9


class Maker(Drawn):
    """What all makers of random networks draw with."""

    def __init__(self, seed: int, *, exact: bool) -> None:
        super().__init__(seed)
        self.exact = exact

    def one_of(self, *values: Any) -> Any:
        """Return one of the values."""
        return values[int(self.rng.integers(len(values)))]

    def number(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``."""
        return int(self.rng.integers(low, high + 1))

    def divisor(self, *numbers: int) -> int:
        """Return a number of groups that all numbers have."""
        return self.one_of(*[d for d in (1, 2, 4, 8) if all(n % d == 0 for n in numbers)])

    def norm(self, layer: nn.Module) -> nn.Module:
        """Return a batch norm with statistics as of a trained network."""
        with torch.no_grad():
            layer.running_mean.normal_(std=0.2)
            layer.running_var.uniform_(0.5, 2.0)
        return layer

    def weigh(self, module: nn.Module) -> None:
        """Give weights zeros of a random pattern; small integers where sums are to be exact."""
        with torch.no_grad():
            for parameter in module.parameters():
                if self.exact:
                    parameter.copy_(torch.randint(-2, 3, parameter.shape))
            for layer in module.modules():
                weights = dict(layer.named_parameters(recurse=False))
                for name, weight in weights.items():
                    if name.startswith("weight") and weight.ndim > 1:
                        weight.mul_(torch.from_numpy(random_mask(self, tuple(weight.shape))))

    def network(
        self,
        shape: list[int | str],
        example: dict[str, int],
        kinds: Sequence[Callable[[int], nn.Module]],
        last: Callable[[int], list[nn.Module]],
        axis: int,
        most: int,
    ) -> OpenCase:
        """Return a network of some of the kinds, whose channels or features lie on ``axis``.

        A layer is kept where PyTorch runs it, on few elements, at small extents too.
        """

        def inputs(extents: dict[str, int]) -> tuple[Tensor, ...]:
            return (torch.ones([extents[e] if isinstance(e, str) else e for e in shape]),)

        def at(extent: int) -> tuple[Tensor, ...]:
            return inputs({name: 1 if name == "batch" else extent for name in example})

        model, steps, features = nn.Sequential(), list[str](), int(shape[axis])
        wanted = self.number(2, 5)
        while len(steps) < wanted:
            kind = kinds[int(self.rng.integers(len(kinds)))]
            layer = kind(features).eval()
            self.weigh(layer)
            longer = nn.Sequential(*model, layer)
            if smallest(longer, at) is None:
                continue
            try:
                found, largest = longer(*inputs(example)), longer(*at(most))
            except RuntimeError:  # a table has no more rows, for one
                continue
            if found.ndim == len(shape) and 0 < largest.numel() <= MOST_ELEMENTS:
                model, features = longer, int(found.shape[axis])
                steps.append(kind.__name__)
        end = nn.Sequential(*last(features))
        self.weigh(end)
        model = nn.Sequential(*model, *end).eval().requires_grad_(False)
        least = smallest(model, at)
        assert least is not None
        limits = {n: (1, MOST_BATCH) if n == "batch" else (least, most) for n in example}
        return OpenCase(model, [shape], limits, example, self.exact, steps)
