"""A compiled model run beside its source: whether both compute the same, which is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tvm_sparse.base.targets import parse_target
from tvm_sparse.comparison import programs, reference
from tvm_sparse.comparison.latency import calls_a_turn, race
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.part import Part

TURNS = 9
UNSURE = 1.5
"""Turns that differ by more than this say no speed."""


@dataclass(frozen=True)
class Beside:
    """Largest relative error of a compiled model, and its speed over the source's.

    ``over_source`` is the median of :data:`TURNS` turns, and seven of them are within ``least`` and
    ``most``: where these are far apart, something else runs on the machine.
    """

    error: float
    over_source: float
    least: float
    most: float

    def __str__(self) -> str:
        speed, why = f"{self.over_source:.2f}x", ""
        if self.most > UNSURE * self.least:
            speed, why = (
                f"{self.least:.2g} to {self.most:.2g} times",
                ": the machine is busy, try again",
            )
        return f"error {self.error:.1e}, {speed} the speed of the source{why}"


def beside_source(
    library: Any,
    source: str,
    files: Sequence[Path] | None = None,
    weights: Path | None = None,
    part: Part | None = None,
) -> Beside:
    """Run ``source``, or its ``part``, beside ``library`` on inputs in ``files`` or random ones.

    Raises
    ------
    InputError
        The library was compiled for another machine, or computes something else.
    """
    if not parse_target(library.target).runs_here:
        raise InputError("--check", "code for another machine does not run here", "this machine")
    inputs = programs.inputs_for(library, files)
    ours = partial(programs.call, library, inputs)
    theirs = reference.reference(source, inputs, weights, part)
    error = reference.largest_error(ours(), theirs())
    rounding = library.decisions.rounding
    # The same rounding costs other inputs somewhat more or less.
    tolerance = programs.TOLERANCE + (4 * rounding.error if rounding else 0)
    if not error <= tolerance:
        raise InputError(
            source,
            f"computes something else than the compiled model (error {error:.2g})",
            f"at most {tolerance:.2g}",
            "report this with the model: it is a bug",
        )
    calls = calls_a_turn(theirs)
    turns = [race({"ours": ours, "source": theirs}, 1, calls) for _ in range(TURNS)]
    ratios = sorted(turn["source"].median_us / turn["ours"].median_us for turn in turns)
    # One turn of nine may meet something on either side and says nothing.
    return Beside(error, ratios[TURNS // 2], ratios[1], ratios[-2])
