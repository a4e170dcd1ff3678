"""What one compilation makes: the record that a library is built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.artifact.pristine import Pristine
from tvm_sparse.frontends.model import Model, TensorSpec
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
        What ``tvm.compile`` returned.
    pristine
        The same as it was before anything of it ran.
    weights
        The packed arrays that ``main`` takes behind its inputs, in order.
    decisions, kernels
        What was chosen for each layer, and what runs in which order.
    unaligned
        Numbers of the inputs that may begin anywhere in memory.
    recipe
        How the arrays come from the model's weights, where new ones may come.
    slow
        Which kernels have no operator of ours and take long.
    alternatives
        Programs of the same model for other machines.
    """

    model: Model = field(repr=False)
    target: Target
    executable: Any = field(repr=False)
    pristine: Pristine = field(repr=False)
    weights: dict[str, np.ndarray] = field(repr=False)
    decisions: Decisions
    kernels: list[Kernel] = field(repr=False)
    unaligned: tuple[int, ...] = ()
    recipe: Recipe | None = field(default=None, repr=False)
    slow: tuple[str, ...] = ()
    alternatives: tuple[Compiled, ...] = field(default=(), repr=False)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and shapes of the model's inputs."""
        return self.model.inputs

    @property
    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """Smallest and largest extent of each symbol in the inputs' shapes."""
        return self.model.bounds
