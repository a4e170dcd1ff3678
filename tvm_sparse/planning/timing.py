"""How long a compiled network takes, and each layer of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_sparse.base.made_inputs import calls
from tvm_sparse.base.names import layer_of_array
from tvm_sparse.base.targets import spelled, threads_of
from tvm_sparse.comparison.profile import timed
from tvm_sparse.errors import InputError
from tvm_sparse.program.library import Library
from tvm_sparse.selection.break_even import curve
from tvm_sparse.selection.decisions import DENSE, Decision

ROUNDS, RUNS = 8, 2
"""Turns of each network at least, and its runs in a turn. The least time counts: what else runs on
the machine makes times longer, never shorter."""

MORE_ROUNDS, SETTLED = 120, 0.01
"""Turns at most, while the last :data:`ROUNDS` of them still found a network faster by so much: a
program that ran beside it has ended."""

BETWEEN = 1.0
"""Microseconds between two kernels at most. Where other programs share the cores, whole runs are
interrupted each time, but no kernel is: then the kernels and what is between them count."""

OPERATIONS = 1e5
"""Of a dense layer in a modelled microsecond, where the model of a CPU knows ratios only."""


@dataclass(frozen=True)
class Taken:
    """Microseconds and bytes of packed weights: of each layer by its name, and of all together."""

    us: dict[str, float]
    whole_us: float
    nbytes: dict[str, int]
    whole_bytes: int

    def scaled(self, factor: float) -> Taken:
        """Return the same with other times."""
        us = {name: value * factor for name, value in self.us.items()}
        return Taken(us, self.whole_us * factor, self.nbytes, self.whole_bytes)

    def renamed(self, names: Mapping[str, str]) -> Taken:
        """Return the same with layers called by ``names``, where they have one there."""
        us = {names.get(layer, layer): value for layer, value in self.us.items()}
        nbytes = {names.get(layer, layer): value for layer, value in self.nbytes.items()}
        return replace(self, us=us, nbytes=nbytes)


def measured(libraries: Sequence[Library], inputs: Sequence[Any]) -> list[Taken]:
    """Return what each of ``libraries``, which run here, takes on ``inputs``; they run in turns."""
    kernels = [np.full(len(library.kernels), np.inf) for library in libraries]
    whole = np.full(len(libraries), np.inf)
    settled = whole.copy()
    for turn in range(MORE_ROUNDS):
        if turn and turn % ROUNDS == 0:
            if (whole >= (1 - SETTLED) * settled).all():
                break
            settled = whole.copy()
        for i, library in enumerate(libraries):
            found, us = timed(library, inputs, RUNS)
            kernels[i] = np.minimum(kernels[i], [kernel.us for kernel in found])
            whole[i] = min(whole[i], us)
    taken = []
    for library, times, us in zip(libraries, kernels, whole, strict=True):
        layers: dict[str, float] = {}
        for kernel, time in zip(library.kernels, times, strict=True):
            layers[kernel.layer] = layers.get(kernel.layer, 0.0) + float(time)
        kernels_us = float(times.sum()) + BETWEEN * len(times)
        taken.append(Taken(layers, min(float(us), kernels_us), *stored(library)))
    return taken


def latency_us(library: Library, inputs: Sequence[Any] | None = None) -> float:
    """Return the microseconds of a call of ``library``, taken as those of tables are.

    ``inputs`` are its tensors, random ones by default.
    """
    for given in calls(library.inputs, library.bounds) if inputs is None else [inputs]:
        with suppress(AssertionError):
            return measured([library], given)[0].whole_us
    raise InputError(
        "plan", "random inputs are not what the model asserts", "inputs=", "pass its tensors"
    )


def timed_for(library: Library) -> tuple[str, int]:
    """Return the target and the threads that times of ``library`` are of."""
    return spelled(library.target), threads_of(library.target)


def modelled(libraries: Sequence[Library]) -> list[Taken]:
    """Return what the cost model says of layers; nothing runs.

    The dense network's layers take what the layers that other ``libraries`` prune would.
    """
    dense_us: dict[str, float] = {}
    for library in libraries:
        for layer, studied in library.decisions.studied.items():
            dense_us[layer] = studied.contraction.flops() / OPERATIONS
    found = []
    for library in libraries:
        us = {d.layer: _modelled_us(library, d, dense_us) for d in library.decisions}
        found.append(Taken(us, sum(us.values()), *stored(library)))
    return found


def _modelled_us(library: Library, decision: Decision, dense_us: Mapping[str, float]) -> float:
    if decision.modelled_us is not None:
        return decision.modelled_us
    own, studied = dense_us.get(decision.layer, 0.0), library.decisions.studied.get(decision.layer)
    if studied is None or decision.chosen in DENSE:
        return own
    points = curve(studied, library.target, [decision.sparsity])
    return own * points[0].cost if points else own


def stored(library: Library) -> tuple[dict[str, int], int]:
    """Return the bytes of packed weights by layer, and all of them."""
    found: dict[str, int] = {}
    for name, array in library.weights.items():
        layer = layer_of_array(name)
        found[layer] = found.get(layer, 0) + array.nbytes
    return found, library.nbytes
