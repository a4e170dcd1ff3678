"""Options of one compilation."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Config(BaseModel):
    """How to compile; every field has a default that suits most models.

    Parameters
    ----------
    sparse
        ``False`` compiles every layer dense by the same pipeline: the baseline for speed-ups.
    measure
        Time dense and sparse candidates of each layer on this machine and take the faster;
        ``False`` decides by the cost model. Cross-compiling never measures.
    cache
        Take what the user's cache directory has from this machine: times that were measured before
        for the same code (new ones are kept there), and costs that ``tvm-sparse machine --fit``
        fitted.
    tuned
        Use tuning records where they are faster than the default schedules.
    ignore
        Layers that stay dense: globs on fully qualified names.
    force
        Layer glob to ``"dense"`` (the direct sum), ``"winograd"`` (3x3 convolutions) or a format
        name (``"balanced"``, ``"block"``, …), stronger than any measurement; what does not fit the
        layer is an error.
    dump
        Write the module after each pass into this directory, ``1-canonicalise/02-Simplify.py`` and
        so on, to see what a pass did; by default the value of ``TVM_SPARSE_DUMP``, if set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sparse: bool = True
    measure: bool = True
    cache: bool = True
    tuned: bool = True
    ignore: tuple[str, ...] = ()
    force: dict[str, Literal["dense", "balanced"] | str] = Field(default_factory=dict)
    dump: str = Field(default_factory=lambda: os.environ.get("TVM_SPARSE_DUMP", ""))

    def ignored(self, layer: str) -> bool:
        """Whether ``layer`` stays dense."""
        return any(fnmatchcase(layer, glob) for glob in self.ignore)

    def forced(self, layer: str) -> str | None:
        """Return the storage that the user asked for in ``layer``, if any."""
        if self.ignored(layer):
            return "dense"
        return next((v for glob, v in self.force.items() if fnmatchcase(layer, glob)), None)
