"""Say which changes of kernels to keep, by what a GPU measured.

    python -m benchmarks.gpu.queue.decide

A value of a mend is kept where its median gain is :data:`KEPT` at least and its worst one is
:data:`WORST`; between that and no gain anywhere, the layers decide: they are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from benchmarks.harness.common import load

KEPT, WORST = 1.03, 0.98


def main() -> None:
    for line in decisions(load("gpu_mend_times").get("rows", [])):
        print(line)


def decisions(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each mend and value other than its first, which is what is there."""
    gains: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        times = {n: t["median_us"] for n, t in row["times"].items()}
        marked = row.get("contaminated", ())
        first, *others = times
        for name in others:
            if first not in marked and name not in marked:
                gains.setdefault((row["mend"], name), {})[row["case"]] = times[first] / times[name]
    for (mend, name), found in gains.items():
        middle, least, most = median(found.values()), min(found.values()), max(found.values())
        keep = middle >= KEPT and least >= WORST
        word = "keep" if keep else "drop" if most < KEPT else "choose by layer"
        told = f"median {middle:.2f}x, {least:.2f} to {most:.2f}x over {len(found)} layers"
        yield f"{word}: {mend}, {name.removeprefix('ours ')}: {told}"
        if word == "choose by layer":
            yield from (f"  {ratio:.2f}x {case}" for case, ratio in sorted(found.items()))


if __name__ == "__main__":
    main()
