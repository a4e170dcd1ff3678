"""Modules that several tests wrap what they try in."""

from __future__ import annotations

from torch import nn


class Apply(nn.Module):
    """A function of a tensor as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
