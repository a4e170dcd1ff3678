"""Trained PyTorch modules of published packages: how they are loaded, and what judges them.

Nothing of a package is kept here. Labels are those of the pictures' files, or those that inputs
were made from: the pitch of a tone, the voice of a speaker.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from benchmarks.harness.packages import debian, unpacked

Score = Callable[[np.ndarray], float]
"""Takes the outputs of all test inputs."""


@dataclass(frozen=True)
class Data:
    """Inputs of a module: some to prune with, ever more to train with, others to judge it by.

    ``test`` and ``other`` are inputs of one sample each with what scores their outputs; ``other``
    are of another kind than any that pruning or training saw.
    """

    calibration: list[Any]
    training: Callable[[], Iterator[Any]]
    test: tuple[list[Tensor], Callable[[np.ndarray], Score]]
    other: tuple[list[Tensor], Callable[[np.ndarray], Score]]


@dataclass(frozen=True)
class TrainedModule:
    """A trained module of ``packages`` and of Debian's, unpacked into a folder each.

    ``data`` gives its inputs. ``steps`` of distillation bring back what pruning lost.
    """

    name: str
    packages: tuple[str, ...]
    load: Callable[[dict[str, Path]], nn.Module]
    data: Callable[[dict[str, Path]], Data]
    measure: str
    other: str
    steps: int
    rate: float = 1e-3
    ignore: tuple[str, ...] = ()
    losses: dict[str, float] = field(default_factory=dict)
    trials: int = 100
    debian: tuple[str, ...] = ()


def module_in(path: Path) -> Any:
    """Return the Python module or package in ``path``."""
    whole = path.name == "__init__.py"
    name = path.parent.name if whole else path.stem
    places = [str(path.parent)] if whole else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if whole:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def places_of(case: TrainedModule, folder: Path) -> dict[str, Path]:
    """Return where the packages of ``case`` are unpacked.

    Raises
    ------
    FileNotFoundError
        One cannot be fetched.
    """
    found = {name: unpacked(name, folder) for name in case.packages}
    found |= {name: debian(name, folder) for name in case.debian}
    missing = [name for name, place in found.items() if place is None]
    if missing:
        raise FileNotFoundError(", ".join(missing))
    return {name: place for name, place in found.items() if place is not None}
