"""All that is checked about an artifact before anything of it is opened as a library."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import elf, fields, files, manifest, parsing, requirements, trust
from .errors import RuntimeArtifactError, shown
from .manifest import FileRecord, Manifest

OWN = frozenset({manifest.FILE_NAME, trust.SIGNATURE_FILE})
"""Files of an artifact that its manifest does not list."""
_MANIFEST_LIMIT = 64 << 20


@contextlib.contextmanager
def opened(
    directory: Path,
    *,
    hashes: bool = True,
    copy: bool = False,
    keys: Sequence[Any] | None = None,
    ask_gpu: bool = True,
) -> Iterator[tuple[Manifest, tuple[str, str]]]:
    """Give the manifest for this machine and two names, after every check.

    Under the first name the dynamic loader finds the library with the code, under the second the
    one with the weights; often they are one.

    Parameters
    ----------
    directory
        The artifact.
    hashes
        Whether weights and other files are compared with their SHA-256, too; code, names and sizes
        always are.
    copy
        Whether the descriptor is of a copy in memory, which then is what is checked.
    keys
        Public keys, one of which must have signed the manifest; None where nobody need have.
    ask_gpu
        Whether the GPU that is here chooses among programs for several; else the first is taken.

    Raises
    ------
    RuntimeArtifactError
        The first thing that is wrong.
    """
    loaded = read_manifest(directory, keys)
    requirements.check_versions(loaded, directory)
    chosen = requirements.best_program(loaded, directory, ask_gpu=ask_gpu)
    with contextlib.ExitStack() as stack:
        try:
            _check_names(loaded, directory)
            for name in loaded.files.keys() - {loaded.library, chosen.library}:
                with files.opened(directory / name) as descriptor:
                    _check_file(directory / name, descriptor, loaded.files[name], hashes=hashes)
            programs = [chosen] if chosen is loaded else [chosen, loaded]
            libraries = [
                _library(stack, program, directory, hashes=hashes, copy=copy)
                for program in programs
            ]
            _check_weights(chosen, directory / loaded.library, libraries[-1])
        except OSError as error:
            raise _unreadable(directory, error) from error
        names = [
            files.loadable_name(library, directory / program.library)
            for library, program in zip(libraries, programs, strict=True)
        ]
        yield chosen, (names[0], names[-1])


def intact(directory: Path) -> Manifest:
    """Return the manifest of an artifact for any machine, all of whose files are as it says.

    Raises
    ------
    RuntimeArtifactError
        The first thing that is wrong.
    """
    loaded = read_manifest(directory)
    try:
        _check_names(loaded, directory)
        for name, expected in loaded.files.items():
            with files.opened(directory / name) as descriptor:
                _check_file(directory / name, descriptor, expected, hashes=True)
    except OSError as error:
        raise _unreadable(directory, error) from error
    return loaded


def read_manifest(directory: Path, keys: Sequence[Any] | None = None) -> Manifest:
    """Read and check ``manifest.json`` alone, and its signature where ``keys`` are given."""
    path = directory / manifest.FILE_NAME
    try:
        if not directory.is_dir():
            found = "not a directory" if directory.exists() else "there is no such directory"
            raise RuntimeArtifactError(
                str(directory), found, "an artifact", "name a directory that library.export() wrote"
            )
        with files.opened(path) as descriptor:
            size = files.size_of(descriptor)
            if size > _MANIFEST_LIMIT:
                raise RuntimeArtifactError(str(path), f"{size} bytes", "a manifest", fields.DAMAGED)
            document = os.pread(descriptor, size, 0)
            if keys is not None:
                trust.check(document, _signature(directory), keys, str(path))
            return parsing.parse(document, str(path))
    except OSError as error:
        raise _unreadable(path, error) from error


def _signature(directory: Path) -> bytes | None:
    """Return the signature beside a manifest, None if there is none of the right length."""
    try:
        with files.opened(directory / trust.SIGNATURE_FILE) as descriptor:
            found = os.pread(descriptor, trust.SIGNATURE_BYTES + 1, 0)
    except FileNotFoundError:
        return None
    return found if len(found) == trust.SIGNATURE_BYTES else None


def _check_names(loaded: Manifest, directory: Path) -> None:
    """Refuse a directory whose files are not exactly those of the manifest."""
    present = {path.name for path in directory.iterdir()} - OWN
    extra, missing = present - loaded.files.keys(), loaded.files.keys() - present
    if missing:
        raise RuntimeArtifactError(
            str(directory), f"the file {shown(min(missing))} is missing", "", fields.DAMAGED
        )
    if extra:
        raise RuntimeArtifactError(
            str(directory),
            f"the file {shown(min(extra))} does not belong to it",
            f"only {manifest.FILE_NAME} and the files it lists",
            "remove it",
        )


def _check_file(path: Path, descriptor: int, expected: FileRecord, *, hashes: bool) -> None:
    _check_size(path, descriptor, expected)
    if hashes and files.sha256(descriptor) != expected.sha256:
        raise RuntimeArtifactError(
            str(path), "its content does not match its SHA-256", "", fields.DAMAGED
        )


def _check_size(path: Path, descriptor: int, expected: FileRecord) -> None:
    if (size := files.size_of(descriptor)) != expected.size:
        raise RuntimeArtifactError(
            str(path), f"{size} bytes", f"{expected.size} bytes", fields.DAMAGED
        )


def _library(
    stack: contextlib.ExitStack, program: Manifest, directory: Path, *, hashes: bool, copy: bool
) -> int:
    """Return a descriptor of a program's library, closed by ``stack``, after every check of it."""
    path, expected = directory / program.library, program.files[program.library]
    library = stack.enter_context(files.opened(path))
    _check_size(path, library, expected)
    if copy:
        library = stack.enter_context(files.in_memory(library, str(path)))
    _check_file(path, library, expected, hashes=hashes)
    _check_library(program, path, library)
    return library


def _check_library(program: Manifest, path: Path, descriptor: int) -> None:
    """Refuse a library with damaged code or of another manifest."""
    library = elf.SharedObject(descriptor, str(path))
    begin, end = library.weights()
    code = files.sha256(descriptor, (0, begin), (end, files.size_of(descriptor)))
    if code != program.code:
        raise RuntimeArtifactError(
            str(path), "its code does not match its SHA-256", "", fields.DAMAGED
        )
    if library.signature() != program.signature():
        raise RuntimeArtifactError(
            str(path), "made for another manifest", "the one it was exported with", fields.DAMAGED
        )


def _check_weights(program: Manifest, path: Path, descriptor: int) -> None:
    """Refuse a library whose section ends before the program's last weight."""
    begin, end = elf.SharedObject(descriptor, str(path)).weights()
    for weight in program.weights:
        if weight.offset + weight.nbytes > end - begin:
            raise RuntimeArtifactError(
                f"{path}: weight {weight.name}",
                f"ends at {weight.offset + weight.nbytes}",
                f"a section of {end - begin} bytes",
                fields.DAMAGED,
            )


def _unreadable(path: Path, error: OSError) -> RuntimeArtifactError:
    return RuntimeArtifactError(
        str(error.filename or path), f"cannot be read ({error.strerror})", "a complete artifact"
    )
