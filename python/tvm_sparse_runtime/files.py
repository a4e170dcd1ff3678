"""Files opened once: what is checked through a descriptor is what is read and run through it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import RuntimeArtifactError, SparseRuntimeError

_CHUNK = 1 << 20
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_SEALS = ("F_SEAL_WRITE", "F_SEAL_GROW", "F_SEAL_SHRINK", "F_SEAL_SEAL")
_serials = itertools.count(1)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """Give a descriptor of the regular file ``path``; never follow a link nor wait for a pipe.

    Raises
    ------
    RuntimeArtifactError
        It is a link, a directory, a pipe or a device.
    OSError
        It cannot be opened.
    """
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise _not_regular(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _not_regular(path)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def in_memory(source: int, where: str) -> Iterator[int]:
    """Give a descriptor of a copy in memory, which nobody can change, of the file ``source``."""
    if not hasattr(os, "memfd_create"):
        raise SparseRuntimeError("copy", "not possible here", "Linux", "load it without copy")
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    descriptor = os.memfd_create(Path(where).name[:64], flags)
    try:
        offset, size = 0, os.fstat(source).st_size
        while sent := os.sendfile(descriptor, source, offset, size - offset):
            offset += sent
        for seal in _SEALS:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, getattr(fcntl, seal))
        yield descriptor
    finally:
        os.close(descriptor)


def size_of(descriptor: int) -> int:
    """Return the bytes of an open file."""
    return os.fstat(descriptor).st_size


def sha256(descriptor: int, *ranges: tuple[int, int]) -> str:
    """Return the SHA-256 of an open file, or of its ``ranges`` (begin, end) one after another."""
    digest = hashlib.sha256()
    for begin, end in ranges or ((0, size_of(descriptor)),):
        for offset in range(begin, min(end, size_of(descriptor)), _CHUNK):
            digest.update(os.pread(descriptor, min(_CHUNK, end - offset), offset))
    return digest.hexdigest()


def loadable_name(descriptor: int, path: Path) -> str:
    """Return a name under which the dynamic loader opens the file behind ``descriptor``.

    The loader takes a name that it has seen for the library it has already, and descriptors'
    numbers come back: steps that lead nowhere spell a serial number. Where there is no ``/proc``
    the name is ``path``, which somebody else may have replaced since it was checked.
    """
    if not Path(f"/proc/self/fd/{descriptor}").exists():
        return str(path.resolve())
    steps = f"{next(_serials):b}".replace("0", "/").replace("1", "./")
    return f"/proc/self/fd/{steps}{descriptor}"


def _not_regular(path: Path) -> RuntimeArtifactError:
    return RuntimeArtifactError(
        str(path), "not a regular file", "a file, no link", "copy it with cp --dereference"
    )
