"""Damage the files of an artifact in every way that disks, copies and people do."""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import numpy as np

import tvm_sparse_runtime as rt
from tests.damage.watch import report
from tests.runtime import native
from tvm_sparse_runtime.manifest import FILE_NAME
from tvm_sparse_runtime.parsing import parse

X = np.arange(192, dtype="float32").reshape(3, 64) % 11


def flip(path, generator, _):
    data = bytearray(path.read_bytes())
    for _ in range(generator.randint(1, 8)):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data)


def header(path, generator, _):
    """Change the beginning or the end, where the headers of a library are."""
    data = bytearray(path.read_bytes())
    place = generator.choice([generator.randrange(512), len(data) - 1 - generator.randrange(2048)])
    data[place % len(data)] ^= generator.randint(1, 255)
    path.write_bytes(data)


def truncate(path, generator, _):
    os.truncate(path, generator.randrange(path.stat().st_size))


def extend(path, generator, _):
    path.write_bytes(path.read_bytes() + generator.randbytes(generator.randint(1, 9999)))


def shift(path, generator, _):
    data, n = path.read_bytes(), generator.randint(1, 4096)
    path.write_bytes(data[n:] + data[:n])


def hole(path, generator, _):
    """Zero some pages, as a copy that was interrupted leaves them."""
    data = bytearray(path.read_bytes())
    begin = generator.randrange(len(data))
    end = min(len(data), begin + generator.randint(1, 8192))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)


def empty(path, *_):
    path.write_bytes(b"")


def swap(path, _, __):
    first, second = sorted(path.parent.iterdir())[:2]
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def foreign(path, _, other):
    suffix = path.suffix
    path.write_bytes(next(other.glob(f"*{suffix}")).read_bytes())


def link(path, _, __):
    aside = path.parent.parent / f"{path.parent.name}-{path.name}"
    path.rename(aside)
    path.symlink_to(aside)


def directory(path, *_):
    path.unlink()
    path.mkdir()


def pipe(path, *_):
    path.unlink()
    os.mkfifo(path)


def socket_file(path, *_):
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def missing(path, *_):
    path.unlink()


def more(path, generator, _):
    (path.parent / generator.choice(["notes", "model.so", ".hidden"])).write_bytes(b"x")


def permission(path, *_):
    path.chmod(0)


OFTEN = (flip, header, truncate, hole)
DAMAGES = (extend, shift, empty, swap, foreign, link, directory, pipe, socket_file, missing, more)
DAMAGES = (*OFTEN * 5, *DAMAGES, permission)


def run(case: int, sound: Path, other: Path, verify: bool, place: Path) -> tuple[str, str]:
    """Damage a copy of ``sound`` and load it; return what was done and what became of it."""
    generator = random.Random(case)
    copy = shutil.copytree(sound, place / "a.tvms")
    path = generator.choice(sorted(copy.iterdir(), reverse=True))
    damage = generator.choice(DAMAGES)
    damage(path, generator, other)
    what, held = f"{damage.__name__} {path.suffix}", generator.random() < 0.3
    native_status = native.opened(copy, verify=verify, copy=held)[0]
    try:
        library = rt.load(copy, verify=verify, copy=held, threads=1)
        outputs = library(X)
    except rt.SparseRuntimeError as error:
        if native_status != native.BAD_ARTIFACT:
            return what, f"C gives {native_status} for {error}"
        return what, "refused" if str(error).isascii() else "not printable"
    except BaseException as error:
        return what, f"{type(error).__name__}: {error}"
    wanted = rt.load(sound, threads=1)(X)
    same = all(np.array_equal(a, b) for a, b in zip(outputs, wanted, strict=True))
    return what, "right" if same and _harmless(copy, sound) else "loaded silently"


def _harmless(copy: Path, sound: Path) -> bool:
    """Whether the copy still says the same: blanks in JSON, a mode that the user may ignore."""
    read = [parse((place / FILE_NAME).read_bytes()) for place in (copy, sound)]
    library = read[1].library
    return read[0] == read[1] and (copy / library).read_bytes() == (sound / library).read_bytes()


def main(sound: str, other: str, verify: str, cases: str) -> None:
    def one(case: int) -> tuple[str, str]:
        with tempfile.TemporaryDirectory() as place:
            return run(case, Path(sound), Path(other), verify == "True", Path(place))

    report(cases, one)


if __name__ == "__main__":
    main(*sys.argv[1:])
