"""What must not be imported although an importer would: results that no library can repeat."""

from __future__ import annotations

from typing import Any

import torch

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters import layer_of

_TRAINING = {"native_dropout": 2, "dropout": 2, "rrelu_with_noise": 4}
"""Operators that are random in training only: the position of that argument."""


def refuse_random(program: torch.export.ExportedProgram) -> None:
    """Refuse operators that draw random numbers.

    Raises
    ------
    UnsupportedError
        One is used; the message names its layer.
    """
    for node in program.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.nondeterministic_seeded not in node.target.tags or _harmless(node):
            continue
        raise UnsupportedError(
            layer_of(node),
            f"operator '{node.target}' draws random numbers",
            "a model whose outputs follow from its inputs",
            "export it in evaluation mode, or pass the random numbers as an input",
        )


def _harmless(node: Any) -> bool:
    """Whether a random operator is given arguments with which it is not."""
    name = node.target.__name__.partition(".")[0]
    position = _TRAINING.get(name)
    if position is not None:
        return len(node.args) > position and not node.args[position]
    return name.startswith(("_scaled_dot_product", "scaled_dot_product"))
