"""Finished layers on disk, so that a long run goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.utils import _pytree as pytree

from tvm_sparse.base import json_text
from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.layer import Pruned
from tvm_sparse.pruning.methods.base import Proposal

SETTINGS = "settings.json"


class State:
    """A directory with one file a finished layer; without a directory nothing is kept.

    Raises
    ------
    InputError
        The directory holds a run with other settings, or is damaged.
    """

    def __init__(self, directory: str | Path | None, settings: Mapping[str, Any]) -> None:
        self.directory = None if directory is None else Path(directory)
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / SETTINGS
        if not path.exists():
            _replace(path, json.dumps(settings, indent=1).encode())
            return
        try:
            kept = json_text.parsed(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InputError(
                str(path), "cannot be read", "settings of a run", "delete it"
            ) from error
        check_same(self.directory, kept, settings, "directory")

    def find(self, key: str, weight: Tensor) -> Pruned | None:
        """Return the finished layer ``key``, whose weight is like ``weight``, if it is there."""
        path = self._path(key)
        if path is None or not path.exists():
            return None
        try:
            with safe_open(path, "pt") as file:
                notes = json_text.parsed(file.metadata()["notes"])
                found, mask = file.get_tensor("weight"), file.get_tensor("mask")
            proposal = Proposal(mask.bool().numpy(), *notes["proposal"])
            loss = float(notes["loss"])
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                str(path), f"cannot be read ({error})", "a finished layer", "delete the file"
            ) from error
        if found.shape != weight.shape:
            raise InputError(str(path), f"has shape {list(found.shape)}", str(list(weight.shape)))
        return Pruned(found.to(weight), proposal, loss)

    def keep(self, key: str, pruned: Pruned) -> None:
        """Write a finished layer."""
        path = self._path(key)
        if path is None:
            return
        one = pruned.proposal
        notes = {"proposal": [one.pattern, one.wanted, one.note], "loss": pruned.loss}
        tensors = {"weight": pruned.weight.contiguous(), "mask": torch.tensor(one.mask)}
        part = path.with_suffix(".part")
        save_file(tensors, part, {"notes": json.dumps(notes)})
        part.replace(path)

    def _path(self, key: str) -> Path | None:
        return None if self.directory is None else self.directory / f"{key}.safetensors"


def check_same(path: Path, kept: Any, settings: Mapping[str, Any], sort: str) -> None:
    """Refuse to go on with the run in ``path``, a ``sort`` of place, if ``kept`` differs."""
    odd = [k for k in settings if not isinstance(kept, dict) or kept.get(k) != settings[k]]
    if odd:
        raise InputError(
            str(path),
            f"holds a run with another {odd[0]}",
            str(settings[odd[0]]),
            f"take another {sort}, or repeat that run",
        )


def _replace(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


def digest(values: Iterable[Any]) -> str:
    """Return a hash of all tensors in ``values`` (nested), with their shapes and dtypes."""
    summed = hashlib.sha256()
    for leaf in pytree.tree_leaves(list(values)):
        if isinstance(leaf, Tensor):
            summed.update(f"{leaf.dtype}{list(leaf.shape)}".encode())
            summed.update(leaf.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            summed.update(repr(leaf).encode())
    return summed.hexdigest()
