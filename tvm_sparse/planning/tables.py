"""All that plans are made of, kept on disk: another budget needs nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.base import json_text
from tvm_sparse.base.cache_directory import cache_directory
from tvm_sparse.errors import InputError
from tvm_sparse.planning.costs import Costs
from tvm_sparse.planning.knapsack import Numbers

VERSION = 1


@dataclass(frozen=True)
class Point:
    """A whole network that was stitched together and run: its ``loss`` by the tables, its drop.

    ``label`` names the candidate that all its layers took, ``""`` if each took its own.
    """

    label: str
    us: float
    nbytes: float
    loss: float
    drop: float


@dataclass(frozen=True, eq=False)
class Tables:
    """Costs by the name of numerics and losses (layers, candidates) of a network.

    ``layers`` are keys of parameters, ``sizes`` the numbers of their weights; ``candidates``
    labels, ``recipes`` how recipes spell them (``None``: dense). ``losses`` are drops of the
    outputs if they added up. ``uniform`` and ``mixed`` are networks that were run. ``dense_us``
    is the dense network in float32; speed-ups are over it. ``target`` and ``threads`` say where
    times are from.
    """

    layers: tuple[str, ...]
    sizes: tuple[int, ...]
    candidates: tuple[str, ...]
    levels: tuple[float, ...]
    recipes: tuple[dict[str, Any] | None, ...]
    costs: Mapping[str, Costs]
    losses: Numbers
    uniform: tuple[Point, ...]
    mixed: tuple[Point, ...]
    dense_us: float
    target: str
    threads: int

    def loss(self, choice: Sequence[int]) -> float:
        """Return the sum of the losses of a choice."""
        return float(self.losses[np.arange(len(self.layers)), list(choice)].sum())

    def zeros_of(self, choice: Sequence[int]) -> float:
        """Return the fraction of zeros over the weights of all layers, with a choice."""
        zeros = (n * self.levels[c] for n, c in zip(self.sizes, choice, strict=True))
        return sum(zeros) / sum(self.sizes)

    def drop(self, loss: float) -> float:
        """Return the drop of a network with a sum of losses, between those that were run."""
        losses, drops = self._curve()
        if loss > losses[-1]:
            return min(1.0, drops[-1] * loss / losses[-1]) if losses[-1] else drops[-1]
        return float(np.interp(loss, losses, drops))

    def drop_of(self, choice: Sequence[int]) -> float:
        """Return the drop of a choice: as it was measured, if all layers take one candidate."""
        ran = {point.label: point.drop for point in self.uniform}
        labels = {self.candidates[c] for c in choice}
        known_drop = ran.get(labels.pop()) if len(labels) == 1 else None
        return self.drop(self.loss(choice)) if known_drop is None else known_drop

    def most_loss(self, drop: float) -> float:
        """Return the greatest sum of losses whose drop is at most ``drop``."""
        losses, drops = self._curve()
        if drop > drops[-1]:
            return float("inf")
        above = int(np.argmax(np.array(drops) > drop)) if drop < drops[-1] else len(drops) - 1
        if above == 0:
            return -1.0
        part = (drop - drops[above - 1]) / max(drops[above] - drops[above - 1], 1e-30)
        return float(losses[above - 1] + min(part, 1.0) * (losses[above] - losses[above - 1]))

    def _curve(self) -> tuple[list[float], list[float]]:
        points = sorted((p.loss, p.drop) for p in self.mixed)
        return [0.0, *(p[0] for p in points)], [0.0, *np.maximum.accumulate([p[1] for p in points])]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **vars(self),
            "version": VERSION,
            "costs": {name: costs.to_json() for name, costs in self.costs.items()},
            "losses": self.losses.tolist(),
            "uniform": [vars(p) for p in self.uniform],
            "mixed": [vars(p) for p in self.mixed],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Tables:
        """Undo :meth:`to_json`.

        Raises
        ------
        KeyError, TypeError, ValueError, AttributeError
            It is something else.
        """
        values = dict(content)
        if values.pop("version") != VERSION:
            raise ValueError("of another version")
        for key in ("layers", "sizes", "candidates", "levels", "recipes"):
            values[key] = tuple(values[key])
        values["costs"] = {name: Costs.from_json(c) for name, c in values["costs"].items()}
        values["losses"] = np.array(values["losses"], np.float64)
        for key in ("uniform", "mixed"):
            values[key] = tuple(Point(**point) for point in values[key])
        found = cls(**values)
        shape = (len(found.layers), len(found.candidates))
        if any(a.shape != shape for a in (found.losses, *(c.us for c in found.costs.values()))):
            raise ValueError("with tables of other extents")
        return found


BROKEN = (KeyError, TypeError, ValueError, AttributeError)
"""What :meth:`Tables.from_json` raises for what is none."""


def known(key: str) -> Tables | None:
    """Return the tables that were kept under ``key``; what cannot be read is made again."""
    try:
        return Tables.from_json(json_text.parsed(_path(key).read_text(encoding="utf-8")))
    except (OSError, *BROKEN):
        return None


def keep(key: str, tables: Tables) -> None:
    """Keep ``tables`` under ``key``, where there is a place to write."""
    with contextlib.suppress(OSError, InputError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", suffix=".json", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps(tables.to_json()))
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)


def _path(key: str) -> Path:
    return cache_directory() / "plans" / f"{key}.json"
