"""What the chooser loses: the measured time of what it takes over that of the best it had.

    python -m benchmarks.gpu.regret

A weight's candidates are its own formats, the dense kernels of the same layer, type and rows,
cuBLASLt, and cuSPARSELt where it is 2:4, each as it was measured. They are modelled as the compiler
does, and the margins decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from benchmarks.gpu.timed import (
    TILES,
    Timed,
    contraction_of,
    demand_of,
    format_of,
    rows,
    timed,
)
from tvm_sparse.base.targets import GPUS
from tvm_sparse.selection.cuda import chip as chips
from tvm_sparse.selection.cuda import library_options, two_four_options
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import seconds
from tvm_sparse.selection.cuda.library_time import dense_seconds, two_four_seconds
from tvm_sparse_runtime.libraries import CUBLASLT, CUSPARSELT

DENSE, FILLED = "dense", 16
"""The dense kernel's name, and what its tiles fill rows up to a multiple of."""

PATTERN = re.compile(r"(?P<layer>.*), N=(?P<rows>\d+), (?P<pattern>.*)")
PARTS = ("papers", "grid")
"""Parts whose rows have times of libraries."""

THEIRS = {
    CUBLASLT: (
        CUBLASLT,
        library_options.fits,
        lambda size, dtype, on: dense_seconds(size, dtype, on, on.library),
    ),
    CUSPARSELT: ("cusparselt 2:4", two_four_options.fits, two_four_seconds),
}
"""Name -> that of its times, when it is asked, and how it is modelled."""


@dataclass(frozen=True)
class Regret:
    """A case with several candidates: what is taken, what would be best, times in us by name."""

    case: str
    taken: str
    times: dict[str, float]
    modelled: dict[str, float]

    @property
    def best(self) -> str:
        """The candidate that was measured fastest."""
        return min(self.times, key=self.times.__getitem__)

    @property
    def factor(self) -> float:
        """Time of what is taken over the best one's."""
        return self.times[self.taken] / self.times[self.best]


def regrets(on: Chip, found: Iterable[Timed] | None = None) -> Iterator[Regret]:
    """Yield every case of which a dense kernel and another one were timed on ``on``."""
    cases: dict[str, dict[str, Timed]] = {}
    for one in timed(on) if found is None else found:
        cases.setdefault(one.case, {})[one.kernel] = one
    dense, libraries = _dense(cases.values(), on), _libraries(on)
    for case, kernels in cases.items():
        choice = {**kernels, **dense.get(_where(case), {})}
        if DENSE not in choice:
            continue
        modelled = {name: seconds(one.demand, on) * 1e6 for name, one in choice.items()}
        times = {name: one.us for name, one in choice.items()}
        ours = {CUBLASLT: modelled[DENSE], CUSPARSELT: modelled.get("two_four", modelled[DENSE])}
        for name, (us, theirs, margin) in libraries.get(case, {}).items():
            times[name] = us
            if ours[name] >= margin * theirs:
                modelled[name] = theirs
        if len(times) > 1:
            yield Regret(case, taken(modelled, on), times, modelled)


def taken(modelled: dict[str, float], on: Chip) -> str:
    """Return what is chosen: the fastest if it beats dense by its margin."""
    fastest = min(modelled, key=modelled.__getitem__)
    dense = min({DENSE, CUBLASLT} & modelled.keys(), key=modelled.__getitem__)
    margin = library_options.unclear(fastest, on)
    return fastest if modelled[dense] >= margin * modelled[fastest] else dense


def _dense(cases: Iterable[dict[str, Timed]], on: Chip) -> dict[str, dict[str, Timed]]:
    """Return the dense kernel of each layer, type and rows: that with the least modelled time.

    Tiles fill rows up. So one that was timed at 16 rows takes no longer for 8, with the same tile.
    """
    there = [kernels[DENSE] for kernels in cases if DENSE in kernels]
    layers: dict[str, list[Timed]] = {}
    for one in there:
        layers.setdefault(_layer(one.case), []).append(one)
    found = {}
    for one in there:
        ways = [one]
        for other in layers[_layer(one.case)]:
            if one.rows < other.rows <= -(-one.rows // FILLED) * FILLED:
                ways += _of_fewer_rows(other, one, on)
        best = min(ways, key=lambda way: seconds(way.demand, on))
        found[_where(one.case)] = {DENSE: best}
    return found


def _of_fewer_rows(tile: Timed, one: Timed, on: Chip) -> list[Timed]:
    """Return ``tile`` for the rows of ``one``, with its own time; streams fill nothing up."""
    if tile.record["kernel"] not in TILES or one.record["kernel"] not in TILES:
        return []
    row = {"case": one.case, "rows": one.rows}
    return [replace(tile, rows=one.rows, demand=demand_of(row, tile.record, on))]


def _libraries(on: Chip) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Return by case and library its time in us, the modelled one, and how much faster it must be.

    Times hold one more kernel behind it, which is modelled.
    """
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for part in PARTS:
        for row in rows(on, part):
            for name, (timed_as, fits, modelled) in THEIRS.items():
                own = row["times"].get(timed_as)
                if own is None or timed_as in row.get("contaminated", ()):
                    continue
                record = next(iter(row["kernels"].values()))
                c = contraction_of(row, format_of(record["format"]))
                if fits(c, on):
                    size, last = (row["rows"], *c.matrix_shape), library_options.behind(c, on)
                    us, theirs = own["median_us"] + last * 1e6, modelled(size, c.dtype, on) + last
                    margin = library_options.margin(c, name, on)
                    found.setdefault(row["case"], {})[name] = (us, theirs * 1e6, margin)
    return found


def _where(case: str) -> str:
    """Return layer, type and rows of a case."""
    match = PATTERN.fullmatch(case)
    return f"{match['layer']}, N={match['rows']}" if match else case


def _layer(case: str) -> str:
    """Return layer and type of a case."""
    match = PATTERN.fullmatch(case)
    return match["layer"] if match else case


def main() -> None:
    for name in GPUS:
        on = chips.load(name)
        found = sorted(regrets(on), key=lambda one: -one.factor)
        for one in found:
            told = f"takes {one.taken}, best {one.best}, {one.factor:.2f}x"
            print(f"{on.name}, {one.case}: {told}, {one.times}, modelled {one.modelled}")


if __name__ == "__main__":
    main()
