"""What random networks with open extents are made of: each layer takes any extents."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Fit(nn.Module):
    """``body(x)``, resized to the planes of ``x`` and joined with it, as in a U-Net."""

    def __init__(self, body: nn.Module, mode: str, *, added: bool) -> None:
        super().__init__()
        self.body, self.mode, self.added = body, mode, added

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum, or the channels of both."""
        y = F.interpolate(self.body(x), size=x.shape[2:], mode=self.mode)
        return x + y if self.added else torch.cat([x, y], 1)


class Pixels(nn.Module):
    """A layer of rows, for the pixels of planes."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Return planes of what the layer makes of each pixel."""
        rows = self.layer(x.flatten(2).transpose(1, 2))
        return rows.transpose(1, 2).reshape(x.shape[0], -1, x.shape[2], x.shape[3])


class Rows(nn.Module):
    """A layer of each row of planes as a sequence."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Return planes; ``(batch * height, width, channels)`` goes through the layer."""
        batch, channels, height, width = x.shape
        rows = x.permute(0, 2, 3, 1).reshape(batch * height, width, channels)
        return self.layer(rows).reshape(batch, height, width, -1).permute(0, 3, 1, 2)


class Token(nn.Module):
    """A learned row in front of each sequence, and learned places behind that."""

    def __init__(self, features: int, most: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randint(-2, 3, (1, 1, features)).float())
        self.places = nn.Parameter(torch.randint(-2, 3, (1, most + 1, features)).float())

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(batch, steps + 1, features)``."""
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return x + self.places[:, : x.shape[1]]


class Masked(nn.Module):
    """Attention to what came before, by a mask of places."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.keys = nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``, ``(batch, steps, features)``."""
        place = torch.arange(x.shape[1])
        hidden = place[:, None] < place[None, :]
        scores = x @ self.keys(x).transpose(1, 2) / x.shape[2]
        return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ x


class Joined(nn.Module):
    """Two sequences of different lengths behind one another, and attention of one to both."""

    def __init__(self, before: nn.Module, behind: nn.Module, *, exact: bool) -> None:
        super().__init__()
        self.before, self.behind, self.exact = before, behind, exact

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``(batch, first steps + second steps, features)``."""
        both = torch.cat([self.before(x), self.before(y)], 1)
        if not self.exact:
            found = torch.softmax(x @ both.transpose(1, 2) / x.shape[2], -1) @ both
            both = torch.cat([found, both[:, x.shape[1] :]], 1)
        return self.behind(both)


class Clamped(nn.Module):
    """Small integers of integers."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        return F.hardtanh(x, -8, 8)
