"""Files of lines that several processes append to, opened only if they are plain files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from filelock import FileLock

from tvm_sparse.errors import InputError

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MODES = {"rb": os.O_RDONLY, "a+b": os.O_RDWR | os.O_APPEND | os.O_CREAT}


def open_lines(path: Path, mode: Literal["rb", "a+b"]) -> BinaryIO:
    """Open ``path`` to read or to append, as ``open`` does.

    Opening a pipe may wait for ever, and appending through a link writes to a file that nobody
    named. A link to the directory is followed.

    Raises
    ------
    InputError
        ``path`` is a link, a pipe, a device or a directory.
    OSError
        It cannot be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS | _MODES[mode], 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _refusal(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refusal(path)
    return os.fdopen(descriptor, mode)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` to append, alone among all processes; a missing directory is made.

    Raises
    ------
    InputError
        As :func:`open_lines`, or the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"), open_lines(path, "a+b") as file:
            yield file
    except OSError as error:
        found, todo = f"cannot be written ({error.strerror or error})", "name a place that can be"
        raise InputError(str(path), found, "a file of lines", todo) from error


def _refusal(path: Path) -> InputError:
    return InputError(
        str(path), "no plain file", "a file of lines, no link and no pipe", "name the file itself"
    )
