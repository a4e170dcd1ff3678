"""What the chooser loses: the measured time of what it takes over that of the best it had.

    python -m benchmarks.gpu.regret

A weight's candidates are its own formats and the dense kernel of the same layer, type and rows,
each as it was measured. They are modelled as the compiler does, and the margin decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.gpu.timed import Timed, timed
from tvm_sparse.base.targets import GPUS
from tvm_sparse.selection.cuda import chip as chips
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import seconds

DENSE = "dense"
PATTERN = re.compile(r"(?P<where>.*, N=\d+), (?P<pattern>.*)")


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
    dense = {_where(case): kernels[DENSE] for case, kernels in cases.items() if DENSE in kernels}
    for case, kernels in cases.items():
        there = {DENSE: dense[_where(case)]} if _where(case) in dense else {}
        choice = {**there, **kernels}
        if len(choice) > 1 and DENSE in choice:
            modelled = {name: seconds(one.demand, on) * 1e6 for name, one in choice.items()}
            times = {name: one.us for name, one in choice.items()}
            yield Regret(case, taken(modelled, on), times, modelled)


def taken(modelled: dict[str, float], on: Chip) -> str:
    """Return what is chosen: the fastest if it beats dense by the chip's margin."""
    fastest = min(modelled, key=modelled.__getitem__)
    return fastest if modelled[DENSE] >= on.margin * modelled[fastest] else DENSE


def _where(case: str) -> str:
    """Return layer, type and rows of a case."""
    match = PATTERN.fullmatch(case)
    return match["where"] if match else case


def main() -> None:
    for name in GPUS:
        on = chips.load(name)
        found = sorted(regrets(on), key=lambda one: -one.factor)
        for one in found:
            told = f"takes {one.taken}, best {one.best}, {one.factor:.2f}x"
            print(f"{on.name}, {one.case}: {told}, {one.times}, modelled {one.modelled}")


if __name__ == "__main__":
    main()
