"""The page of the zoos of layers and networks, from ``results/*_zoo.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.common import RESULTS

Row = dict[str, Any]
LARGEST = 5
"""Kernels of a network that the page names."""

_HEAD = """\
# Layers and networks of every form

Made by `python -m benchmarks.pages` from `benchmarks/results/network_zoo.jsonl` and
`layers_zoo.jsonl`. Networks have random weights of their real configurations and a batch of one.
One thread; all programs in turns on the same machine; every output was checked before timing.
The machine had other work: compare the ratios, not the times.
"""

_NETWORKS = """
## Networks, dense

Speed is eager PyTorch's time over ours: more than one is faster. Peak is the resident memory of the
process that compiled, PyTorch and its copy of the weights included, where it had one for itself.

| network | ours, ms | eager, ms | speed | compiled in, s | peak, GB |
|---|---:|---:|---:|---:|---:|
"""

_LAYERS = """
## Layers

Dense: the best other runtime's time over ours, the median of the shapes and the lowest. Sparse: our
dense time over ours with 75 % of the weights zero. The best runtime is that of {peers}.

| layer | shapes | dense | lowest | sparse 75 % |
|---|---:|---:|---:|---:|
"""

_COMPILING = """
## Compiling

From an empty cache, with all measurements, on one core. The processor's time counts, not the
clock's: other programs ran meanwhile. Weights are zeroed by their magnitude. Peak is the resident
memory of the process, PyTorch and its copy of the weights included.

| network | weights | processor, s | peak, GB |
|---|---|---:|---:|
"""


def write(pages: Path) -> None:
    """Write the page into the directory ``pages``."""
    text = page(_rows("network_zoo"), _rows("layers_zoo"), _rows("compile_times"))
    (pages / "zoo.md").write_text(text, encoding="utf-8")


def page(networks: list[Row], layers: list[Row], compiled: list[Row] | None = None) -> str:
    """Return the page of these rows; a part without rows is left out."""
    parts = [_HEAD, _machines([*networks, *layers, *(compiled or [])])]
    if networks:
        parts += [_NETWORKS, *map(_network, networks), "\n### Where their time goes\n\n"]
        parts += [_kernels(row) for row in networks if "kernels" in row]
    if layers:
        names = sorted({name for row in layers for name in row.get("us", {})})
        peers = ", ".join(name for name in names if not name.startswith("ours"))
        kinds = dict.fromkeys(row["kind"] for row in layers)
        parts.append(_LAYERS.format(peers=peers))
        parts += [_layer(kind, [r for r in layers if r["kind"] == kind]) for kind in kinds]
    if compiled:
        parts += [_COMPILING, *map(_compiled, compiled)]
    return "".join(parts)


def _rows(name: str) -> list[Row]:
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _machines(rows: list[Row]) -> str:
    """Return a line for each machine with its versions, which the oldest rows do not tell."""
    seen: dict[str, int] = {}
    for row in rows:
        if e := row.get("environment"):
            versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
            line = f"{e['cpu']}, Python {e['python']}, {versions}, {e['date']}"
            seen[line] = seen.get(line, 0) + 1
    lines = [f"* {line}: {count} rows.\n" for line, count in seen.items()]
    return "".join(["\n", *lines]) if lines else ""


def _compiled(row: Row) -> str:
    return f"| {row['name']} | {row['level']} | {row['processor_s']:.0f} | {row['peak_gb']:.1f} |\n"


def _network(row: Row) -> str:
    if "error" in row:
        return f"| {row['name']} | | | {row['error']} | | |\n"
    ours, eager = (row["us"][name] / 1e3 for name in ("ours", "eager"))
    peak = f"{row['peak_gb']:.1f}" if "peak_gb" in row else ""
    return (
        f"| {row['name']} | {ours:.1f} | {eager:.1f} | {row['speed']:.2f} |"
        f" {row['compile_s']:.0f} | {peak} |\n"
    )


def _kernels(row: Row) -> str:
    total = sum(us for *_, us in row["kernels"])
    times: dict[tuple[str, str], list[float]] = {}
    for function, _, rule, us in row["kernels"]:
        times.setdefault((function, rule or "none"), []).append(us)
    largest = sorted(times.items(), key=lambda item: -sum(item[1]))[:LARGEST]
    named = ", ".join(
        f"{100 * sum(us) / total:.0f} % `{function[:48]}` ({rule}, {len(us)} times)"
        for (function, rule), us in largest
    )
    return f"* {row['name']}: {named}.\n"


def _layer(kind: str, rows: list[Row]) -> str:
    dense = [row["dense"] for row in rows if "dense" in row]
    sparse = [row["sparse"] for row in rows if "sparse" in row]
    if not dense:
        return f"| {kind} | {len(rows)} | {rows[0]['error']} | | |\n"
    gain = f"{median(sparse):.2f}" if sparse else ""
    return f"| {kind} | {len(rows)} | {median(dense):.2f} | {min(dense):.2f} | {gain} |\n"
