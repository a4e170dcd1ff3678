"""A compiled model run beside its source: whether both compute the same, which is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tvm_sparse.base.made_inputs import told
from tvm_sparse.base.targets import parse_target
from tvm_sparse.comparison import programs, reference
from tvm_sparse.comparison.latency import calls_a_turn, race
from tvm_sparse.comparison.own_runs import own_runs
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.part import Part

TURNS = 9
UNSURE = 1.5
"""Turns that differ by more than this say no speed."""


@dataclass(frozen=True)
class Beside:
    """Largest relative error of a compiled model, and its speed over the source's.

    ``over_source`` is the median of :data:`TURNS` turns, and seven of them are within ``least`` and
    ``most``: where these are far apart, something else runs on the machine. ``extents`` are those
    of open axes in these turns; the error is that of the smallest ones, too.
    """

    error: float
    over_source: float
    least: float
    most: float
    extents: dict[str, int]

    def __str__(self) -> str:
        speed, why = f"{self.over_source:.2f}x", ""
        if self.most > UNSURE * self.least:
            speed, why = (
                f"{self.least:.2g} to {self.most:.2g} times",
                ": the machine is busy, try again",
            )
        where = f" {told(self.extents)}" if self.extents else ""
        return f"error {self.error:.1e}, {speed} the speed of the source{where}{why}"


def beside_source(
    library: Any,
    source: str,
    files: Sequence[Path] | None = None,
    weights: Path | None = None,
    *,
    part: Part | None = None,
    at: Sequence[Mapping[str, int]] | None = None,
) -> Beside:
    """Run ``source``, or its ``part``, beside ``library`` on inputs in ``files`` or made ones.

    ``at`` are extents of open axes of made inputs, one or several sets.

    Raises
    ------
    InputError
        The library was compiled for another machine, or computes something else.
    """
    if not parse_target(library.target).runs_here:
        raise InputError("--check", "code for another machine does not run here", "this machine")
    own = reference.reference(source, weights, part)
    runs = [run for sizes in at or (None,) for run in own_runs(library, own, files, sizes)]
    error = max(
        reference.largest_error(programs.call(library, run.inputs), run.outputs, programs.LEAST)
        for run in runs
    )
    rounding = library.decisions.rounding
    # The same rounding costs other inputs somewhat more or less.
    tolerance = programs.TOLERANCE + (4 * rounding.error if rounding and rounding.error else 0)
    if not error <= tolerance:
        raise InputError(
            source,
            f"computes something else than the compiled model (error {error:.2g})",
            f"at most {tolerance:.2g}",
            "report this with the model: it is a bug",
        )
    ours, theirs = partial(programs.call, library, runs[0].inputs), runs[0].program
    calls = calls_a_turn(theirs)
    turns = [race({"ours": ours, "source": theirs}, 1, calls) for _ in range(TURNS)]
    ratios = sorted(turn["source"].median_us / turn["ours"].median_us for turn in turns)
    # One turn of nine may meet something on either side and says nothing.
    return Beside(error, ratios[TURNS // 2], ratios[1], ratios[-2], runs[0].extents)
