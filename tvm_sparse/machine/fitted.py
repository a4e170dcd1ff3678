"""Costs for a target: those fitted on this machine, else the ones that come with the package."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from tvm.target import Target

from tvm_sparse.base import json_text
from tvm_sparse.base.cache_directory import cache_directory
from tvm_sparse.base.line_files import appending, open_lines
from tvm_sparse.base.targets import parse_target, shares_loops
from tvm_sparse.errors import InputError
from tvm_sparse.machine.costs import Costs
from tvm_sparse.machine.registry import chip_of, machine_of

FILE = "costs.jsonl"

_fitted: ContextVar[bool] = ContextVar("fitted", default=True)


def costs_of(target: Target) -> Costs:
    """Return what steps cost on a CPU target.

    Fitted costs count where they were fitted: for this machine's own CPU.
    """
    machine = machine_of(target)
    if _fitted.get() and parse_target(target).runs_here:
        own = _read(cache_directory() / FILE).get(_key(target))
        if own is not None:
            return own
    return dict(machine.chips).get(chip_of(target), machine.costs)


def source_of(target: Target) -> str:
    """Return where the costs of steps on ``target`` come from, nothing where it is no CPU."""
    return costs_of(target).source if shares_loops(target) else ""


@contextlib.contextmanager
def fitted_costs(allowed: bool) -> Iterator[None]:
    """Use fitted costs inside, or only those that come with the package."""
    token = _fitted.set(allowed)
    try:
        yield
    finally:
        _fitted.reset(token)


def keep(target: Target, costs: Costs) -> Path:
    """Keep ``costs`` for ``target`` on this machine and return the file; the last ones count."""
    path = cache_directory() / FILE
    line = json.dumps({"key": _key(target), "costs": costs.to_json()}) + "\n"
    with appending(path) as file:
        file.write(line.encode())
    return path


def _key(target: Target) -> str:
    chip, machine = chip_of(target), machine_of(target).name
    return f"{platform.node()} {platform.machine()} {chip} {machine}"


def _read(path: Path) -> dict[str, Costs]:
    """Return all fitted costs by their keys."""
    try:
        found = path.stat()
    except OSError:
        return {}
    return _parsed(path, (found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=1)
def _parsed(path: Path, stamp: tuple[int, int]) -> dict[str, Costs]:
    """Return the costs in ``path`` as it is at ``stamp``; lines that are no records are skipped."""
    del stamp
    found: dict[str, Costs] = {}
    try:
        with open_lines(path, "rb") as file:
            lines = file.read().decode(errors="replace").splitlines()
    except (OSError, InputError):
        return found
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
            record = json_text.parsed(line)
            found[str(record["key"])] = Costs.from_json(record["costs"])
    return found
