"""Single layers of bytes and of bfloat16 against the best dense library in the same numbers.

    python -m benchmarks.narrow_kernels --threads 1
    python -m benchmarks.narrow_kernels --numerics bfloat16 --cases "linear 16x1024 to 1024"

Writes ``results/narrow_kernels.json`` after every layer; rows that are there are measured anew.
Every output is checked against float64 before anything is timed: that of bytes is exact.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

LEVELS = (0.75, 0.875, 0.9375)
NAME = "narrow_kernels"


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import torch

    from benchmarks.common import load, save

    torch.set_num_threads(options.threads)
    for case in cases(options.numerics):
        if options.cases and case.name not in options.cases:
            continue
        fresh = measure(case, options)
        kept = [row for row in load(NAME).get("rows", []) if _key(row) != _key(fresh[0])]
        save(NAME, {"rows": [*kept, *fresh]})
        for row in fresh:
            print(row["case"], row["pattern"], row["sparsity"], f"{row['ratio']:.2f}", flush=True)


def cases(numerics: str) -> list[Any]:
    """Return the layers, in ``numerics``."""
    from benchmarks.kernel_cases import conv, depthwise, linear
    from tvm_sparse.numerics import BFLOATS, INTEGERS

    found = {"int8": INTEGERS[0], "bfloat16": BFLOATS[0]}[numerics]
    linears = [linear(rows, 1024, 1024) for rows in (128, 16, 4, 1)]
    linears += [linear(128, 4096, 1024), linear(1, 4096, 4096, cold=True)]
    windows = [conv(14, 256, 256, 3), conv(28, 128, 128, 3), conv(14, 1024, 256, 1)]
    windows += [conv(28, 512, 128, 1), depthwise(28, 192, 3), depthwise(14, 576, 3)]
    # No library here takes a packed convolution of bfloat16 with sums of float32.
    chosen = linears if numerics == "bfloat16" else linears + windows
    return [replace(case, contraction=replace(case.contraction, numerics=found)) for case in chosen]


def patterns(case: Any) -> dict[str, Any]:
    """Return the patterns of a layer: banks that fill a register, and blocks of 16 x 4."""
    from tvm_sparse.patterns.balanced import Balanced
    from tvm_sparse.patterns.block import Block

    if case.contraction.depthwise:
        return {}
    bank = 512 // case.contraction.numerics.bits
    return {
        f"balanced, banks of {bank}": lambda w, s: Balanced(bank, round(bank * (1 - s))).project(w),
        "blocks of 16 x 4": lambda w, s: Block(16, 4).project(w, s),
    }


def measure(case: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of a layer; dense, pruned and libraries run in turns."""
    from benchmarks.common import environment
    from benchmarks.kernel_race import DENSE, Race, best
    from benchmarks.narrow_peers import bytes_peers, half_peers

    exact = options.numerics == "int8"
    peers, tolerance = (bytes_peers, 1e-6) if exact else (half_peers, 0.01)
    race = Race(case, options.threads, peers=peers, tolerance=tolerance)
    race.weight[race.weight == 0] = 1
    race.add_dense()
    scores = np.random.default_rng(1).random(race.weight.shape, np.float32) + np.float32(0.5)
    for pattern, masks in patterns(case).items():
        for sparsity in LEVELS:
            mask = masks(scores, sparsity).astype(race.weight.dtype)
            race.add_sparse((pattern, sparsity), mask, libraries=False)
    race.run(options.rounds, options.seconds)
    library, dense = best(race.libraries(DENSE))
    rows = []
    for key in [DENSE, *((p, s) for p in patterns(case) for s in LEVELS)]:
        storage, ours = best(race.ours(key))
        pattern, sparsity = (DENSE, 0.0) if key == DENSE else key
        rows.append(
            {
                "case": case.name,
                "numerics": options.numerics,
                "threads": options.threads,
                "pattern": pattern,
                "sparsity": sparsity,
                "storage": storage,
                "ours_us": round(ours, 1),
                "library": library,
                "library_us": round(dense, 1),
                "ratio": round(dense / ours, 2),
                "environment": environment(options.threads),
            }
        )
    return rows


def write(pages: Path) -> None:
    """Write ``narrow_kernels.md`` into ``pages``, if there are results."""
    from benchmarks.common import load

    rows = load(NAME).get("rows", [])
    if not rows:
        return
    first = rows[0]["environment"]
    text = [
        "# Layers of bytes and of bfloat16",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/narrow_kernels.json`.",
        "Time of the best dense library in the same numbers (oneDNN; onnxruntime; of bfloat16,",
        "OpenVINO) over ours, all in turns: more than one is faster. Every output was checked.",
        f"Machine: {first['cpu']}.",
        "",
        "| layer | numbers | threads | pattern | dense | 75 % | 87.5 % | 93.75 % | best library |",
        "|---|---|---:|---|---:|---:|---:|---:|---|",
    ]
    dense = {_key(row): row["ratio"] for row in rows if row["sparsity"] == 0}
    for key, pattern in dict.fromkeys((_key(r), r["pattern"]) for r in rows):
        of = [r for r in rows if (_key(r), r["pattern"]) == (key, pattern)]
        levels = {r["sparsity"]: f"{r['ratio']:.2f}" for r in of}
        if pattern == "dense" and any(_key(r) == key and r["sparsity"] for r in rows):
            continue
        cells = [levels.get(level, "") for level in LEVELS]
        library = f"{of[0]['library']}, {of[0]['library_us']} us"
        line = [key[0], key[1], str(key[2]), pattern, f"{dense[key]:.2f}", *cells, library]
        text.append("| " + " | ".join(line) + " |")
    (pages / "narrow_kernels.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["case"], row["numerics"], row["threads"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--numerics", choices=("int8", "bfloat16"), default="int8")
    parser.add_argument("--cases", nargs="+", help="names of layers; default: all")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.002, help="of each program in a round")
    return parser.parse_args()


if __name__ == "__main__":
    main()
