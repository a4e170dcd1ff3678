"""What one compilation makes: the record that a library is built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.frontends.model import Model
from tvm_sparse.program.refresh import Recipe
from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse.selection.decisions import Decisions


@dataclass(frozen=True)
class Compiled:
    """A program with all that is known of it.

    Parameters
    ----------
    model
        What it was compiled from.
    target
        What for.
    executable
        What ``tvm.compile`` returned; nothing of it has run yet.
    weights
        The packed arrays that ``main`` takes behind its inputs, in order.
    decisions, kernels
        What was chosen for each layer, and what runs in which order.
    unaligned
        Numbers of the inputs that may begin anywhere in memory.
    recipe
        How the arrays come from the model's weights, where new ones may come.
    """

    model: Model = field(repr=False)
    target: Target
    executable: Any = field(repr=False)
    weights: dict[str, np.ndarray] = field(repr=False)
    decisions: Decisions
    kernels: list[Kernel] = field(repr=False)
    unaligned: tuple[int, ...] = ()
    recipe: Recipe | None = field(default=None, repr=False)
