"""What the queue is made of: steps as a table has them, each a list of pieces that are saved."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu import device, prepare
from benchmarks.gpu.prepare import Buildable

Row = dict[str, Any]

SECONDS, LIMIT = 15.0, 180.0
"""Time that must be left to begin a piece, and time after which it is given up."""

PEERS = ("torch", "triton", "apache-tvm")

MEASURING = ("timing", "device", "layers", "libraries", "cases")
"""Files of ``benchmarks/gpu`` that decide what a time is."""


@dataclass(frozen=True)
class Piece:
    """What succeeds or fails on its own; its rows are saved together.

    ``part`` names the file of results that they belong to. ``key`` is a digest of all that they
    depend on: a piece with rows of the same key is not run again. ``skip`` says why it cannot be
    run at all, or not now. ``needs`` are kernels that must be built before. ``alone``: nothing else
    may run on this machine's cores.
    """

    name: str
    part: str
    key: str
    run: Callable[[], Iterable[Row]]
    needs: tuple[Buildable, ...] = ()
    skip: str = ""
    alone: bool = False
    seconds: float = SECONDS
    limit: float = LIMIT


@dataclass(frozen=True)
class Plan:
    """How large the queue's work is: that of a GPU, or a small one for the stand-in."""

    target: str = "cuda:sm_90"
    small: bool = False
    repeats: int = 100
    workers: int = 1

    def key(self, *folders: str) -> str:
        """Return a digest of the package's ``folders``, of how is measured, of versions and GPU."""
        digest = hashlib.sha256(f"{self.small} {self.repeats} {self.target}".encode())
        digest.update(prepare.code_version(*folders).encode())
        digest.update(_measuring())
        digest.update(str(device.current().about()["gpu"]).encode())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Step:
    """A line of the queue: ``pieces`` for the first ``minutes``, the rest when others had theirs.

    ``kernels`` are built before there is a GPU. ``tells`` makes a few words of the rows.
    """

    name: str
    minutes: float
    runs: str
    decides: str
    pieces: Callable[[Plan], Iterable[Piece]]
    kernels: Callable[[Plan], Iterable[Buildable]] = lambda plan: ()
    tells: Callable[[list[Row]], str] = lambda rows: ""


@functools.cache
def _measuring() -> bytes:
    """Return a digest of the benchmark's own files, and of the peers' versions."""
    digest = hashlib.sha256()
    for name in MEASURING:
        digest.update((Path(prepare.__file__).parent / f"{name}.py").read_bytes())
    for package in PEERS:
        try:
            digest.update(importlib.metadata.version(package).encode())
        except importlib.metadata.PackageNotFoundError:
            digest.update(b"none")
    return digest.digest()
