"""Costs are found again from the times that they model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import host
from tvm_sparse.errors import InputError
from tvm_sparse.machine.costs import Costs
from tvm_sparse.machine.fitted import costs_of, fitted_costs
from tvm_sparse.selection.candidates import dense_candidate
from tvm_sparse.selection.fit import fit
from tvm_sparse.selection.fit_bench import SIDE, linear, timer

DENSE_US = 100.0
MATRIX = np.ones((SIDE, SIDE), np.float32)


def modelled(costs: Costs):
    """Return a clock of a chip on which steps cost what ``costs`` says."""

    def penalty(name, found):
        if name == "balanced":
            format = getattr(found.format, "inner", found.format)
            words = max(16, format.bank // format.depth)
            return 1 + costs.of_lookup(words, 32 // format.depth)
        if name == "joint":
            bank = found.format.bank
            step = 1 + costs.of_lookup(bank) + dict(costs.table)[bank]
            return step + dict(costs.entry)[bank] / found.format.keep
        if name == "block":
            return 1 + costs.block / 8
        if name == "taps":
            return dict(costs.tap)[found.format.group]
        with fitted_costs(allowed=False):
            shipped = costs_of(host())
        if name == "winograd":
            return found.penalty - shipped.winograd + costs.winograd
        return found.penalty / shipped.rows * costs.rows

    def time(candidates, c, matrix):
        return {
            name: DENSE_US * (1 if name == "dense" else found.work * penalty(name, found))
            for name, found in candidates.items()
        }

    return time


@pytest.mark.parametrize("cpu", ["znver4", "haswell"])
def test_costs_are_found_again(cpu):
    target = host(cpu)
    shipped = costs_of(target)
    chip = replace(
        shipped,
        lookup=tuple((bank, 1.5 * cost) for bank, cost in shipped.lookup),
        halves=((16, 0.4),),
        bytes=((16, 0.7),),
        entry=tuple((bank, 2 * cost) for bank, cost in shipped.entry[: len(shipped.lookup)]),
        tap=((8, 2.5), (16, 1.1)),
        block=6.0,
        rows=1.3,
        winograd=1.4,
    )
    steps = []
    found = fit(target, steps.append, modelled(chip))
    assert found.source.startswith("fitted on")
    assert len(steps) == 7
    for name, value in chip.to_json().items():
        if name != "source":
            got = getattr(found, name)
            assert (
                got == pytest.approx(value)
                if isinstance(value, float)
                else all(
                    a == (size, pytest.approx(cost))
                    for a, (size, cost) in zip(got, value, strict=True)
                )
            )


def test_no_step_is_free():
    def noise(candidates, c, matrix):
        return dict.fromkeys(candidates, 1e-3) | {"dense": DENSE_US}

    found = fit(host("znver4"), time=noise)
    assert all(cost > 0 for _, cost in (*found.lookup, *found.entry, *found.tap))
    assert min(found.block, found.rows, found.winograd) > 0


def test_a_busy_machine_is_refused():
    quiet, runs = modelled(costs_of(host("znver4"))), []

    def busy(candidates, c, matrix):
        times = quiet(candidates, c, matrix)
        runs.append(times)
        slower = 1 + len(runs) / 10
        return {name: us * (1 if name == "dense" else slower) for name, us in times.items()}

    with pytest.raises(InputError, match="a lookup in 16 columns cost"):
        fit(host("znver4"), time=busy)


@pytest.mark.slow
def test_this_machine_can_be_timed():
    """Whatever the figures: busy machines are refused."""
    times = timer(host())({"dense": dense_candidate(linear(), host())}, linear(), MATRIX)
    assert times["dense"] > 0
