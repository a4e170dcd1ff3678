"""A file that keeps the state of a run, so that it goes on where it was interrupted."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.state import check_same


class Checkpoint:
    """The file ``path`` of a run with ``settings``; without a path nothing is kept."""

    def __init__(self, path: str | Path | None, settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.settings = dict(settings)

    def load(self) -> dict[str, Any] | None:
        """Return the state that was kept, ``None`` if there is none.

        Raises
        ------
        InputError
            The file cannot be read, or holds a run with other settings.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            kept = torch.load(self.path, map_location="cpu", weights_only=True)
            settings, state = kept["settings"], kept["state"]
        except (
            OSError,
            RuntimeError,
            EOFError,
            pickle.UnpicklingError,
            LookupError,
            TypeError,
            AttributeError,
            ValueError,
        ) as error:
            raise InputError(
                str(self.path), "cannot be read", "the state of a run", "delete it"
            ) from error
        check_same(self.path, settings, self.settings, "file")
        return dict(state)

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace what is kept by ``state``."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        torch.save({"settings": self.settings, "state": dict(state)}, part)
        part.replace(self.path)
