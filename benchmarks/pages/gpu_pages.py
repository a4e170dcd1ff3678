"""The pages of the GPU kernels, from what ``benchmarks/gpu`` wrote to ``results/gpu_*.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.gpu.executed import HOPPER_ARCH
from benchmarks.gpu.jobs import buildable
from benchmarks.gpu.operators import HOPPER, LISTED, OPERATORS
from benchmarks.harness.common import load
from benchmarks.pages import (
    gpu_hopper_page,
    gpu_modelled_page,
    gpu_operators_page,
    gpu_times_page,
    gpu_verdict,
)
from benchmarks.pages.gpu_times_page import NOT_YET, table

RAN = "sm_90"
"""The architecture whose machine code a GPU has run."""

PARTS = {
    "correct": "every operator, small shapes, outputs verified",
    "limits": "copy bandwidth, cuBLAS over rows of activations",
    "papers": "shapes of the papers",
    "depthwise": "depthwise layers of the mobile networks",
    "convolutions": "dense convolutions of ResNet-50",
    "two_four": "2:4 layers of transformers with many rows",
    "bytes": "layers of bytes beside the same in fp16",
    "grid": "8192 x 8192 over sparsity and rows",
    "metrics": "counters of NVIDIA's profiler",
    "models": "whole networks against PyTorch",
    "tune": "schedules that tuning finds for the papers' shapes, against the defaults",
    "flush": "what programs find in L2: written lines, read ones, their own",
    "library": "dense libraries over rows, columns, features and dtypes",
    "mend_times": "changes of the kernels, on and off",
    "hopper": "kernels for Hopper, written by hand",
    "schedules": "random schedules, for the model of a chip",
}
"""Part of the GPU benchmark -> what it measures."""


def write(pages: Path) -> None:
    """Write ``gpu.md`` and ``gpu_rows.md`` into ``pages``, if the kernels were compiled."""
    compiled = _read("gpu_compiled")
    if compiled is not None:
        (pages / "gpu.md").write_text(page(compiled))
        (pages / "gpu_rows.md").write_text(rows_page(compiled, _read("gpu_regimes")))


def page(compiled: dict[str, Any]) -> str:
    """Return the page of the verdict: what was measured, what is proved, how to measure."""
    measured = _measured()
    lines = [
        "# Operators on NVIDIA GPUs",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/gpu_*.json`.",
        "",
        *gpu_verdict.lines(measured),
        "Every measured and modelled time, and what machine code holds: [all rows](gpu_rows.md).",
        "",
        "## How it is known",
        "",
        "*Compiled*: machine code for each architecture, without spills or arrays in local memory.",
        "*Executed PTX*: what NVRTC makes of the kernel, run on a CPU by our executor",
        "([design](../design/ptx.md)), equal to the naive reference. *Sound*: its sanitizer",
        "watched every access and found nothing.",
        "*Measured*: on a GPU, output verified, by",
        "[`benchmarks/gpu/run.sh`](../../benchmarks/gpu/run.sh).",
        "",
        *_usage(),
        *_operators(compiled, _measured_kernels(measured)),
    ]
    return "\n".join(lines) + "\n"


def rows_page(compiled: dict[str, Any], regimes: dict[str, Any] | None) -> str:
    """Return the page of all rows: measured ones, machine code, and what is modelled."""
    measured = _measured()
    lines = [
        "# Operators on NVIDIA GPUs, all rows",
        "",
        "What stands behind [operators on NVIDIA GPUs](gpu.md).",
        "",
    ]
    lines += gpu_times_page.lines(measured, PARTS)
    lines += gpu_hopper_page.lines(measured["hopper"], measured["grid"])
    lines += gpu_operators_page.lines(_read("gpu_operators_alone"))
    lines += _code(compiled)
    if regimes is not None:
        lines += _regimes(regimes)
    names = ("gpu_modelled_grid", "gpu_modelled_hopper", "gpu_modelled", "gpu_speed")
    lines += gpu_modelled_page.lines(*map(_read, names))
    return "\n".join(lines) + "\n"


def _measured() -> dict[str, dict[str, Any] | None]:
    """Return what was measured of each part."""
    return {part: _read(f"gpu_{part}") for part in PARTS}


def _operators(compiled: dict[str, Any], measured_on: dict[tuple[str, str], str]) -> list[str]:
    """Return the table of what is proved for each operator: when, and the file that says so."""
    executed, rows = _executed(), []
    for layer, operator in (OPERATORS | HOPPER).items():
        own = [row for row in compiled["rows"] if row["layer"] == layer]
        archs = operator.arch or ", ".join(compiled["archs"])
        state = f"{archs}, {_dated(compiled['date'], 'gpu_compiled')}"
        dtypes = ", ".join(dict.fromkeys(row["dtype"] for row in own))
        lean = own and all(row["stack"] <= _listed(row)[0] for row in own)
        found = measured_on.get((operator.format, operator.kernel), NOT_YET)
        found = NOT_YET if operator.parts else found
        proofs = [state if lean else NOT_YET, *executed.get(layer, (NOT_YET, NOT_YET)), found]
        rows.append([layer, operator.kernel, dtypes, *proofs])
    head = ["operator", "kernel", "dtypes", "compiled", "executed PTX", "sanitizer"]
    head.append("measured on a GPU")
    lines = ["## What is proved", "", *table(head, rows)]
    tried = [layer for layer, operator in OPERATORS.items() if operator.tried]
    if tried and not all(OPERATORS[layer].kernel in {k for _, k in measured_on} for layer in tried):
        lines += [f"The compiler does not choose {', '.join(tried)} yet.", ""]
    return lines


def _executed() -> dict[str, tuple[str, str]]:
    """Return what became of each layer's executed PTX, and what the sanitizer said."""
    content, found = _read("gpu_executed"), {}
    rows = content["rows"] if content else []
    for layer in dict.fromkeys(row["layer"] for row in rows):
        own = [row for row in rows if row["layer"] == layer]
        equal = [row["dtype"] for row in own if row["error"] == 0]
        when = _dated(content["environment"]["date"], "gpu_executed")
        state = f"equal in {len(equal)} of {len(own)} dtypes, {when}"
        errors = sum(len(row["findings"]) for row in own)
        found[layer] = (state, f"{errors} findings" if errors else "sound")
    return found


def _dated(date: str, name: str) -> str:
    """Return ``date`` as a link to the results ``name``."""
    return f"[{date}](../../benchmarks/results/{name}.json)"


def _usage() -> list[str]:
    """Return how to measure, with a GPU at hand for minutes only."""
    count = len(buildable(PARTS))
    return [
        "## Measure",
        "",
        "```sh",
        "benchmarks/gpu/run.sh --queue --build    # before: compile and pack, needs no GPU",
        "benchmarks/gpu/run.sh --queue --minutes 25",
        "",
        "benchmarks/gpu/run.sh --build            # the same for all layers, one after the other",
        "benchmarks/gpu/run.sh --minutes 9.5      # on the GPU machine; run it again to go on",
        "benchmarks/gpu/run.sh --parts models     # or some parts",
        "```",
        "",
        "The queue asks a GPU what decides most first, and goes on where it ended",
        "([how](../design/cuda.md#from-a-gpu-run-to-a-commit)).",
        "",
        f"`--build` leaves machine code in `build/gpu` ({count} kernels of about 70 KB",
        "each, and the networks), which may be copied to the GPU machine together with the same",
        "sources: what is there is not compiled again, and other sources compile anew. Packed",
        "weights are gigabytes; they are made from seeds on the GPU machine, on all cores,",
        "before the first measurement. Each case is saved when it is measured and left out by",
        "the next call. A case that fails or computes something else is named in the results,",
        "and the next one goes on, in a fresh process where the GPU takes no more calls.",
        "",
        "A program is captured in a CUDA graph and replayed; one that no graph can hold is",
        "called while the stream sleeps, until the host has launched all of it. Each row says",
        "which, and how long the host took. `--flush` chooses what a program finds in L2: lines",
        "that were only read (`clean`, the default), written ones that it must first write back",
        "(`dirty`), or what the call before it left (`none`). A program is called 100 times, slow",
        "ones less often: a quarter of a second, but ten calls at least. Networks are begun only",
        "while four minutes are left, because `torch.compile` takes as long. Triton's block kernel",
        "searches its parameters first, up to a minute a case (`--no-tune-libraries`: not).",
        "",
    ]


def _code(compiled: dict[str, Any]) -> list[str]:
    """Return the table of registers and of the instructions that decide, on what a GPU ran."""
    rows = []
    for row in compiled["rows"]:
        own = row["layer"] in HOPPER or row["arch"] == RAN
        if own and row["dtype"] != "bfloat16":
            counts = ", ".join(f"{n} {name}" for name, n in sorted(row["instructions"].items()))
            cells = [row["layer"], row["dtype"], row["rule"], str(row["registers"]), counts]
            rows.append(cells)
    head = ["operator", "dtype", "schedule rule", "registers a thread", "instructions"]
    notes = [
        f"* {layer}, {dtype}, {arch}: {most} bytes of local memory a thread; {why}."
        for (layer, dtype, arch), (most, why) in LISTED.items()
    ]
    exceptions = ["Exceptions from what *compiled* means:", "", *notes, ""] if notes else []
    title = f"## Machine code for {RAN}, and for {HOPPER_ARCH} what Hopper alone has"
    return [title, "", *table(head, rows), *exceptions]


def _listed(row: dict[str, Any]) -> tuple[int, str]:
    """Return the local memory that a kernel is known to take, and why."""
    return LISTED.get((row["layer"], row["dtype"], row["arch"]), (0, ""))


def _regimes(regimes: dict[str, Any]) -> list[str]:
    size = regimes["size"]
    counts = list(dict.fromkeys(row["rows"] for row in regimes["rows"]))
    cells: dict[tuple[str, float], list[str]] = {}
    for row in regimes["rows"]:
        ratio = row["dense_us"] / row["us"]
        text = f"{row['format']} {row['kernel']} {ratio:.1f}x"
        cells.setdefault((row["pattern"], row["sparsity"]), []).append(text)
    rows = [[p, f"{s:.0%}", *texts] for (p, s), texts in cells.items()]
    return [
        "## Which kernel is chosen",
        "",
        f"A {size} x {size} fp16 weight on an H200, by rows of activations N: format, kernel and",
        "modelled speed-up over our own dense kernel, launch included. Modelled, not measured, by",
        "[the fitted model](../design/cuda.md#which-way-is-chosen); less than 1.1x stays dense.",
        "",
        *table(["pattern", "zeros", *(f"N = {n}" for n in counts)], rows),
    ]


def _measured_kernels(measured: dict[str, dict[str, Any] | None]) -> dict[tuple[str, str], str]:
    """Return GPU and date by format and kernel, of what was verified there."""
    found: dict[tuple[str, str], str] = {}
    for part in ("correct", "depthwise"):
        content = measured[part]
        for row in content["rows"] if content else ():
            where = _dated(row["environment"]["date"], f"gpu_{part}")
            for format, record in row["kernels"].items():
                on = f"{row['environment']['gpu']}, {where}"
                found.setdefault((format, record["kernel"]), on)
    return found


def _read(name: str) -> dict[str, Any] | None:
    return load(name) or None
