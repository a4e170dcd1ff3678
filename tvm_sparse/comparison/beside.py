"""A compiled model run beside its source: whether both compute the same, which is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tvm_sparse.base.targets import parse_target
from tvm_sparse.comparison import programs, reference
from tvm_sparse.comparison.latency import race
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.part import Part


@dataclass(frozen=True)
class Beside:
    """Largest relative error of a compiled model, and its speed over the source's."""

    error: float
    over_source: float


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
    times = race({"ours": ours, "source": theirs}, rounds=5, calls=4)
    return Beside(error, times["source"].median_us / times["ours"].median_us)
