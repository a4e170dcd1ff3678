"""Values at the edges of floats, and a comparison of compiled models with PyTorch there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

import tvm_sparse as ts

Use = Callable[..., torch.Tensor]

EDGES = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-40, 3e38, -3e38, 1e-8, -1e-8),
    *(6.0, -1.0, 1.0, 3.0, -3.0, 88.9, -104.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5),
)


def with_edges(*shape: int) -> torch.Tensor:
    """Return random values of ``shape`` with every edge value twice at random places."""
    x = torch.randn(shape) * 2
    places = torch.randperm(x.numel())[: 2 * len(EDGES)]
    x.view(-1)[places] = torch.tensor(EDGES).repeat(2)
    return x


class Uses(torch.nn.Module):
    """All of ``uses`` on the same inputs."""

    def __init__(self, uses: Mapping[str, Use]) -> None:
        super().__init__()
        self.uses = dict(uses)

    def forward(self, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the results by name."""
        return {name: use(*inputs) for name, use in self.uses.items()}


def wrong(
    uses: Mapping[str, Use],
    *inputs: torch.Tensor,
    target: str = "cpu",
    rtol: float = 1e-5,
    atol: float = 1e-6,
    exact: bool = False,
) -> dict[str, str]:
    """Compile all of ``uses`` and return what is wrong with the results, by name.

    NaN must be where PyTorch's is. ``exact`` compares with PyTorch in float64.
    """
    module = Uses(uses)
    library = ts.compile(module, inputs, target=target, config=ts.Config(measure=False))
    found = library.run(*inputs)
    with torch.no_grad():
        doubled = [x.double() if exact and x.is_floating_point() else x for x in inputs]
        expected = module(*doubled)
    pairs = zip(expected.items(), found, strict=True)
    messages = ((name, _difference(got, want, rtol, atol)) for (name, want), got in pairs)
    return {name: message for name, message in messages if message}


def _difference(got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float) -> str:
    if want.dtype == torch.float64 and got.dtype == torch.float32:
        want = want.float()
    try:
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""
