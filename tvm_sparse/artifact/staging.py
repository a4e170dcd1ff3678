"""A directory that appears whole or not at all, even when the process is killed."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextlib.contextmanager
def staged(directory: Path) -> Iterator[Path]:
    """Give a new empty directory that becomes ``directory`` when the block ends without error.

    It lies beside ``directory`` under a hidden name and is locked while its process lives; what a
    killed process left there is removed by the next export. Files must be written and synced by
    the caller; the switch itself is one rename. An existing ``directory`` is replaced.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name}.partial-"
    _remove_abandoned(directory.parent, prefix)
    staging, lock = _locked_directory(directory.parent, prefix)
    try:
        yield staging
        sync(staging)
        _replace(staging, directory)
        sync(directory.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        os.close(lock)


def sync(path: Path) -> None:
    """Force a file or a directory's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked_directory(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a new directory and the descriptor that holds its lock."""
    while True:
        path = parent / f"{prefix}{secrets.token_hex(8)}"
        path.mkdir()
        descriptor = _try_lock(path)
        if descriptor is not None and path.exists():
            return path, descriptor
        if descriptor is not None:  # another export took it for abandoned in between
            os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """Return a descriptor with the lock on ``path``, or None if a living process holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove what killed exports to the same place have left."""
    for path in [path for path in parent.iterdir() if path.name.startswith(prefix)]:
        descriptor = _try_lock(path)
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _replace(staging: Path, directory: Path) -> None:
    """Put ``staging`` in the place of ``directory``; afterwards ``staging`` is the old one, if any.

    Linux exchanges two directories in one step. Where the file system cannot, the old one steps
    aside first and comes back if the second rename fails.
    """
    if not directory.exists():
        staging.rename(directory)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(staging), os.fsencode(directory)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return
    aside = staging.with_name(staging.name + "-old")
    directory.rename(aside)
    try:
        staging.rename(directory)
    except OSError:
        aside.rename(directory)
        raise
    shutil.rmtree(aside, ignore_errors=True)
