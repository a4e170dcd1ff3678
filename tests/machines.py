"""Machines that only tests have: this one with something changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.kernels import host
from tvm_sparse.machine.engine.registry import ENGINES
from tvm_sparse.machine.record import Caches, Machine
from tvm_sparse.machine.registry import MACHINES, machine_of


@contextlib.contextmanager
def changed_machine(*, engines: bool = True, **changes: Any) -> Iterator[Machine]:
    """Make targets of this machine mean one with ``changes``, with the same ``engines`` or none."""
    here = machine_of(host())
    machine = replace(here, name="changed", **changes)
    own = {
        (n, machine.name): e for (n, name), e in ENGINES.items() if name == here.name and engines
    }
    MACHINES.add(machine.name, machine)
    ENGINES.update(own)
    try:
        yield machine
    finally:
        MACHINES.remove(machine.name)
        for pair in own:
            del ENGINES[pair]


def part_of(limit: int) -> Caches:
    """Return caches with which a part of a batch may have results of ``limit`` bytes."""
    return Caches(near=2 * limit)
