"""Artifacts that are kept in the user's cache directory, so that nothing is compiled twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from tvm_sparse.artifact.own_key import own_key, own_trust
from tvm_sparse_runtime import library as runtime
from tvm_sparse_runtime.errors import RuntimeArtifactError


def opened_or_made(place: Path, make: Callable[[], Any]) -> tuple[runtime.Library, Any]:
    """Return the artifact at ``place``, which is exported there from what ``make`` compiles.

    Where signatures are asked for, only what this process compiled can be used.

    Returns
    -------
    The opened artifact, and the library that was made for it, None if it was there.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        try:
            return runtime.load(place, trusted=own_trust()), None
        except RuntimeArtifactError:
            made = make()
            made.export(place, force=True, sign=own_key())
            return runtime.load(place, trusted=own_trust()), made
