"""Times measured before on this machine, so that no process measures the same code again."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import tvm_ffi
from tvm import tirx, transform
from tvm.target import Target

from tvm_sparse.base import json_text
from tvm_sparse.base.cache_directory import cache_directory
from tvm_sparse.base.line_files import appending, open_lines
from tvm_sparse.errors import InputError

FILE = "times.jsonl"

METHOD = "best of short pieces, threads together"
"""How times are taken: those taken in another way are measured again."""


class Times:
    """Microseconds by operator for each key that :func:`key_of` makes, kept in ``directory``.

    One JSON line a key, appended under a lock; the last line of a key counts. Lines that are not
    records (torn, edited) are skipped. Without a place to write, or where the file is a link or a
    pipe, nothing is kept.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.path = (directory or cache_directory()) / FILE
        self._known = _read(self.path)

    def get(self, key: str, names: set[str]) -> dict[str, float] | None:
        """Return the times of exactly the operators ``names``, or ``None``."""
        times = self._known.get(key)
        return dict(times) if times is not None and set(times) == names else None

    def put(self, key: str, times: Mapping[str, float]) -> None:
        """Remember ``times``, here and in the file."""
        self._known[key] = dict(times)
        line = json.dumps({"key": key, "times": dict(times)}) + "\n"
        with contextlib.suppress(InputError):  # a read-only home: the next process measures again
            with appending(self.path) as file:
                file.write(line.encode())


def key_of(functions: Mapping[str, tirx.PrimFunc], target: Target) -> str:
    """Return a key of scheduled functions by name.

    It covers all that a time depends on but the place of the nonzeros: how it is taken, the code
    (shapes included), the machine, its threads, the versions of the compilers, and what the pass
    context in force changes in what they do.
    """
    threads = os.environ.get("TVM_NUM_THREADS", "")
    parts = [METHOD, str(target), threads, platform.node(), platform.machine(), str(os.cpu_count())]
    parts += _settings(transform.PassContext.current())
    parts += [importlib.metadata.version(name) for name in ("apache-tvm", "tvm-sparse")]
    for name, func in functions.items():
        parts.append(f"{name} {tvm_ffi.structural_hash(func) & (2**64 - 1):016x}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _settings(context: transform.PassContext) -> list[str]:
    """Return what a pass context changes: instruments only watch."""
    passes = [sorted(map(str, names)) for names in (context.required_pass, context.disabled_pass)]
    options = sorted(f"{name}={value}" for name, value in context.config.items())
    return [str(context.opt_level), *map(str, passes), *options]


def _read(path: Path) -> dict[str, dict[str, float]]:
    known: dict[str, dict[str, float]] = {}
    try:
        with open_lines(path, "rb") as file:
            lines = file.read().splitlines()
    except (OSError, InputError):
        return known
    for line in lines:
        try:
            record = json_text.parsed(line)
            times = {str(name): float(us) for name, us in record["times"].items()}
            key = str(record["key"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue
        if all(math.isfinite(us) and us > 0 for us in times.values()):
            known[key] = times
    return known
