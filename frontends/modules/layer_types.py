"""What a weight is part of, in the words of reports: by operator, and by name where that is all."""

from __future__ import annotations

import re
from collections.abc import Mapping

ATTENTION = "attention projection"
DEPTHWISE = "depthwise conv"
_CELLS = {4: "lstm", 3: "gru", 1: "rnn"}
"""Type of recurrent cell by its number of gates, which its weights stack along the rows."""


def conv_type(dims: int, groups: int, inputs: int, *, transposed: bool = False) -> str:
    """Return the type of a convolution over ``dims`` axes of ``inputs`` channels."""
    if transposed:
        return f"transposed conv{dims}d"
    if groups == 1:
        return f"conv{dims}d"
    return f"{DEPTHWISE if groups == inputs else 'grouped conv'}{dims}d"


def recurrent_type(cell: str, name: str) -> str:
    """Return the type of the weight ``name`` of a recurrent layer ``cell`` (``"lstm"``, …)."""
    if "weight_hr" in name:
        return f"{cell} projection"
    return f"{cell} {'input' if 'weight_ih' in name else 'hidden'} gates"


def linear_type(name: str) -> str:
    """Return the type of a linear layer: a projection of an attention block, or just linear."""
    return ATTENTION if re.search(r"attn|attention", name, re.IGNORECASE) else "linear"


def matrix_type(name: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the type of the two-dimensional weight ``name`` among all tensors' ``shapes``.

    The weights of a recurrent layer are known by PyTorch's names; their cell by the number of
    gates, the ratio of the extents of the hidden weight.
    """
    if re.search(r"weight_(ih|hh|hr)(_l\d+)?(_reverse)?$", name) is None:
        return linear_type(name)
    hidden = shapes.get(re.sub(r"weight_(ih|hr)", "weight_hh", name), (4, 1))
    # With a projection, which only an LSTM can have, the ratio is another.
    cell = _CELLS.get(hidden[0] // hidden[1] if hidden[0] % hidden[1] == 0 else 4, "lstm")
    return recurrent_type(cell, name)
