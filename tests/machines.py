"""Machines that only tests have: this one with something changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.kernels import host
from tvm_sparse.machine.record import Caches, Machine
from tvm_sparse.machine.registry import MACHINES, machine_of


@contextlib.contextmanager
def changed_machine(**changes: Any) -> Iterator[Machine]:
    """Make targets of this machine mean one with ``changes``."""
    machine = replace(machine_of(host()), name="changed", **changes)
    MACHINES.add(machine.name, machine)
    try:
        yield machine
    finally:
        MACHINES.remove(machine.name)


def part_of(limit: int) -> Caches:
    """Return caches with which a part of a batch may have results of ``limit`` bytes."""
    return Caches(near=2 * limit)
