"""An installation with declared dependencies alone, made of links to what is installed here."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

_IMPORT_ALL = """
import importlib, json, pkgutil, sys
failed = {}
for root in ("tvm_sparse_runtime", "tvm_sparse"):
    package = importlib.import_module(root)
    for found in pkgutil.walk_packages(package.__path__, root + ".", onerror=lambda name: None):
        last = found.name.rpartition(".")[2]
        if last == "__main__" or last.startswith("lib"):
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            failed[found.name] = error.name.partition(".")[0]
print(json.dumps(failed))
"""


def closure(names: list[str]) -> set[str]:
    """Return the distributions that those named bring, themselves included."""
    found: set[str] = set()
    left = [Requirement(name) for name in names]
    while left:
        requirement = left.pop()
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": ""}):
            continue
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        if distribution.metadata["Name"] not in found:
            found.add(distribution.metadata["Name"])
            left += map(Requirement, distribution.requires or ())
    return found


def link(names: set[str], folder: Path) -> None:
    """Link the files of distributions into ``folder``."""
    for name in names:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
            place, source = folder / top, Path(str(distribution.locate_file(top)))
            if not place.exists() and source.exists():
                place.symlink_to(source)


def link_ours(root: Path, folder: Path) -> None:
    """Link both packages of the tree ``root`` into ``folder``, with metadata and libraries."""
    (folder / "tvm_sparse").mkdir()
    (folder / "tvm_sparse_runtime").mkdir()
    sources = [(root / "tvm_sparse", "tvm_sparse")]
    sources += [(root / "python" / "tvm_sparse_runtime", "tvm_sparse_runtime")]
    for name in ("tvm-sparse", "tvm-sparse-runtime"):
        distribution = importlib.metadata.distribution(name)
        built = Path(str(distribution.locate_file(name.replace("-", "_"))))
        sources += [(built, built.name)] if built.is_dir() else []
        metadata = f"{built.name}-{distribution.version}.dist-info"
        (folder / metadata).symlink_to(Path(str(distribution.locate_file(metadata))))
    for source, package in sources:
        for path in source.iterdir():
            if not (folder / package / path.name).exists():
                (folder / package / path.name).symlink_to(path)
    for name in ("frontends", "schedules"):
        (folder / "tvm_sparse" / name).symlink_to(root / name)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with what lies in ``folder`` alone."""
    here = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-S", "-P", *arguments]
        if sys.version_info >= (3, 11)
        else [sys.executable, "-S", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=here | {"PYTHONPATH": str(folder)},
    )


def missing_modules(folder: Path) -> dict[str, str]:
    """Import every module of both packages in ``folder``; return what was not found, by module."""
    done = run(folder, "-c", _IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def modules_of(requirements: list[str]) -> Iterator[str]:
    """Yield the importable names that requirements bring, if they are installed here."""
    names = {Requirement(r).name.lower().replace("_", "-") for r in requirements}
    for module, distributions in importlib.metadata.packages_distributions().items():
        if any(d.lower().replace("_", "-") in names for d in distributions):
            yield module
