"""Libraries of NVIDIA's, which compute layers of GPU programs where they are there."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import engine

CUBLASLT = "cublaslt"
"""What decisions call a layer that cuBLASLt computes."""

CUDNN = "cudnn"
"""What decisions call a layer that cuDNN computes."""

CUSPARSELT = "cusparselt"
"""What decisions call a layer that cuSPARSELt computes."""


@dataclass(frozen=True)
class Library:
    """A library that a program may ask.

    ``variable`` names its file, or is ``off``. ``function`` of the runtime looks for it, also in
    the folders ``wheels`` below ``nvidia``. It computes ``layers``, whose weights are ``kind``:
    ``dense``, or what it leaves zeros out of. Elsewhere our operator ``ours`` computes them.
    """

    name: str
    variable: str
    function: str
    wheels: tuple[str, ...]
    layers: str
    kind: str = "dense"
    ours: str = "dense"


LIBRARIES: Mapping[str, Library] = {
    CUBLASLT: Library(
        "cuBLASLt",
        "TVM_SPARSE_CUBLASLT",
        "tvm_sparse.blas.library",
        ("cu13/lib", "cublas/lib"),
        "linear layers and 1x1 convolutions",
    ),
    CUDNN: Library(
        "cuDNN",
        "TVM_SPARSE_CUDNN",
        "tvm_sparse.dnn.library",
        ("cudnn/lib",),
        "convolutions",
    ),
    CUSPARSELT: Library(
        "cuSPARSELt",
        "TVM_SPARSE_CUSPARSELT",
        "tvm_sparse.two_four.library",
        ("cu13/lib", "cusparselt/lib"),
        "linear layers and 1x1 convolutions",
        "2:4",
        "two_four",
    ),
}
"""By what decisions call their layers."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """The library ``name`` that this process uses, or why it uses none.

    ``version`` is as the library tells it: ten thousand times the major one, and so on (of
    cuSPARSELt, a hundred times the minor one). With a ``problem`` our own kernels run.
    """

    name: str
    path: str
    version: str
    problem: str

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name}: {self.problem}; our own kernels run"
        return f"{self.name}: {self.version} ({self.path})"


@functools.cache
def found(chosen: str) -> Found:
    """Look for a library of :data:`LIBRARIES`, once for this process, and start it.

    Its environment variable names its file, or is ``off``. Without it, a copy that the process has
    loaded is taken, then that of NVIDIA's wheel, then what the loader finds.
    """
    library = LIBRARIES[chosen]
    path, version, problem = engine.function(library.function)(_folders(library))
    return Found(library.name, str(path), str(version), str(problem))


def used(decisions: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line for each library that layers of an artifact ask, and log it.

    Parameters
    ----------
    decisions
        Those of its manifest.
    """
    lines = []
    for chosen, library in LIBRARIES.items():
        layers = sum(decision.get("chosen") == chosen for decision in decisions)
        if layers:
            there = found(chosen)
            lines.append(f"{there} ({layers} of {len(decisions)} layers ask it)")
            expected = not there.problem or os.environ.get(library.variable) == "off"
            _log.log(logging.INFO if expected else logging.WARNING, "%s", lines[-1])
    return tuple(lines)


def _folders(library: Library) -> list[str]:
    """Return the folders of NVIDIA's wheels that are installed."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec else None
    return [str(Path(place, wheel)) for place in places or () for wheel in library.wheels]
