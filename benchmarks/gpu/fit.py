"""Fit the costs of a chip to what was measured on it, and write them into its data file.

    python -m benchmarks.gpu.fit           # every chip of which benchmarks/results has enough rows
    python -m benchmarks.gpu.fit --check   # only say how far the model is off

The logarithm of modelled over measured time is made small, without giving few wild rows much
weight. Costs stay within bounds that hardware sets. *Held out* are the rows of each number of
activations in turn, which a fit to the others must predict.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.gpu.closest import closest
from benchmarks.gpu.depthwise_fit import error as off_by
from benchmarks.gpu.depthwise_fit import fit_depthwise
from benchmarks.gpu.depthwise_fit import timed as timed_depthwise
from benchmarks.gpu.libraries_fit import fitted_library
from benchmarks.gpu.timed import Timed, timed
from tvm_sparse.base.targets import GPUS
from tvm_sparse.selection.cuda import chip as chips
from tvm_sparse.selection.cuda.chip import Chip, Costs
from tvm_sparse.selection.cuda.demand import seconds

LEAST = 60
"""Kernels below which a chip is not fitted."""

WORST = 8
"""Kernels that are named because the model is furthest off."""

BOUNDS = {
    "launch": (2e-6, 6e-6),
    "memory": (0.9, 1.6),
    "written": (0.3, 1.0),
    "step": (0.0, 2000.0),
    "turn": (0.0, 8000.0),
    "first": (0.0, 4000.0),
    "block": (0.0, 4000.0),
    "chain": (0.0, 200.0),
    "bank": (0.0, 200.0),
    "lookup": (0.0, 800.0),
    "pass_": (0.3, 1.5),
    "issue": (0.3, 2.0),
    "feed": (20.0, 128.0),
    "line": (0.3, 8.0),
    "tensor": (0.3, 0.635),
    "scalar": (0.5, 1.0),
}
"""Seconds, clocks or parts. ``mma.sync`` reaches 62 % of Hopper's dense peak (NVIDIA's data sheets
count ``wgmma``); an L1 takes 64 bytes a clock from L2, 128 if it has them."""

START = {
    **{"launch": 3.5e-6, "memory": 1.1, "written": 0.8, "step": 260.0},
    **{
        "turn": 3000.0,
        "first": 900.0,
        "block": 500.0,
        "chain": 40.0,
        "bank": 15.0,
        "lookup": 120.0,
        "pass_": 0.6,
        "issue": 0.8,
    },
    **{"feed": 22.0, "line": 2.0, "tensor": 0.6, "scalar": 1.0},
}


@dataclass(frozen=True)
class Residuals:
    """How far modelled times are from measured ones, as factors of at least 1."""

    count: int
    median: float
    p90: float
    worst: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Residuals:
        """Return those of logarithms of ratios."""
        off = np.exp(np.abs(errors))
        values = (np.median(off), np.quantile(off, 0.9), off.max())
        return cls(len(off), *(round(float(value), 3) for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    for line in refitted(check=parser.parse_args().check):
        print(line)


def refitted(*, check: bool = False) -> Iterator[str]:
    """Fit every chip of which there are enough times; yield how far the model is off.

    ``check`` leaves the data files as they are.
    """
    for name in GPUS:
        on = chips.load(name)
        found = list(timed(on))
        if len(found) < LEAST:
            continue
        if not check:
            write(name, found)
            on = chips.load(name)
        errors = {one: error(one, on) for one in found}
        yield f"{on.name}: {Residuals.of(list(errors.values()))}"
        for one in sorted(errors, key=lambda one: -abs(errors[one]))[:WORST]:
            told = f"{one.case}, {one.kernel}: {one.us:.1f} us"
            yield f"  {told}, modelled {one.us * math.exp(errors[one]):.1f}"


def write(name: str, found: Sequence[Timed]) -> None:
    """Fit the costs of the chip ``name`` and write them into its data file."""
    on = chips.load(name)
    costs = fit_depthwise(replace(on, costs=fit(found, on)))
    own = {key: float(f"{value:.4g}") for key, value in asdict(costs).items()}
    fitted = replace(on, costs=Costs(**own))
    content = {key: value for key, value in chips.read(name).items() if key != "costs_of"}
    library, off = fitted_library(on)
    content["costs"] = {**own, "library": library}
    residuals = {
        "residuals": [error(one, fitted) for one in found],
        "depthwise": [off_by(one, fitted) for one in timed_depthwise(fitted)],
        "library": off,
    }
    content["fit"] = {
        "by": "python -m benchmarks.gpu.fit",
        **{what: asdict(Residuals.of(errors)) for what, errors in residuals.items() if errors},
        "held_out": {str(rows): asdict(one) for rows, one in held_out(found, on)},
    }
    text = re.sub(
        r"\[[-\d.,\s]+\]",
        lambda row: "[" + " ".join(row[0][1:-1].split()) + "]",
        json.dumps(content, indent=2),
    )
    (chips.PLACE / f"{name}.json").write_text(f"{text}\n")
    chips.load.cache_clear()


def fit(found: Sequence[Timed], on: Chip) -> Costs:
    """Return the costs of ``on`` that come closest to what was measured on it."""
    return closest(on, BOUNDS, START, lambda chip: [error(one, chip) for one in found])


def held_out(found: Sequence[Timed], on: Chip) -> Iterator[tuple[int, Residuals]]:
    """Yield how well a fit to all other rows of activations predicts those of each number."""
    for rows in sorted({one.rows for one in found}):
        others, here = ([o for o in found if (o.rows == rows) is own] for own in (False, True))
        costs = fit(others, on)
        yield rows, Residuals.of([error(one, replace(on, costs=costs)) for one in here])


def error(one: Timed, on: Chip) -> float:
    """Return the logarithm of modelled over measured time."""
    return math.log(seconds(one.demand, on, written=one.written) * 1e6 / one.us)


if __name__ == "__main__":
    main()
