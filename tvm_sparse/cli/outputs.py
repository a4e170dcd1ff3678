"""Files that a command writes, looked at before the work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from tvm_sparse.base.new_files import whole
from tvm_sparse.errors import InputError


def check_file(path: Path | None) -> None:
    """Refuse a file that could not be written when the work is done."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"'{path}'", "is a directory", "a file to write")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"'{path}'", f"there is no directory '{folder}'", "one that exists")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError(f"'{path}'", "may not be written", "a place that you may write to")


def check_new_file(path: Path, suffix: str, *, force: bool) -> None:
    """Refuse a file with another suffix, in a bad place, or one that exists unless by ``force``."""
    if path.suffix != suffix:
        raise typer.BadParameter(f"not a {suffix} file", param_hint="--output")
    check_file(path)
    if path.exists() and not force:
        raise InputError(f"'{path}'", "exists", "a new file", "or --force")


def write_weights(model: Any, path: Path) -> None:
    """Write the state of ``model`` as a .safetensors file."""
    from safetensors.torch import save_file

    # Tied weights share memory, which the format refuses: each name gets its own copy.
    tensors = {name: x.detach().clone().contiguous() for name, x in model.state_dict().items()}
    with whole(path) as temporary:
        save_file(tensors, temporary)
