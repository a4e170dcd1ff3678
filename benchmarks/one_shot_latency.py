"""How long a pruned MiniLM takes, for each pattern and level of `benchmarks.one_shot`.

    python -m benchmarks.one_shot_latency --step prepare   # compile
    python -m benchmarks.one_shot_latency --step time      # all in turns, one thread

One sentence of 64 tokens. Weights are pruned by magnitude, because time depends on which are zero
only. Balanced networks are quantized, too, with activations scaled row by row.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tvm_sparse as ts
from benchmarks.harness.common import environment, interleaved, relative_error, save
from benchmarks.harness.threads import limit_threads
from benchmarks.one_shot import LEVELS, PATTERNS, is_whole, loaded
from examples import sentences
from tvm_sparse_runtime import load

NAME = "one_shot_latency"
TOKENS = 64
QUANTIZED = "balanced, bank 16"
MOST = {"float32": 1e-3, "int8": 0.2}
"""Largest error against the pruned network in PyTorch, over the largest value."""


class States(nn.Module):
    """The encoder's hidden states; all tokens count."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, tokens, 384)."""
        states: Tensor = self.encoder(tokens, torch.ones_like(tokens)).last_hidden_state
        return states


def networks(dense: nn.Module) -> Iterator[tuple[str, float, str, nn.Module]]:
    """Yield pattern, zeros, precision and the network, one after another."""
    for precision in MOST:
        yield "dense", 0.0, precision, dense
    for level in LEVELS:
        for pattern, method in PATTERNS.items():
            if not is_whole(pattern, level):
                continue
            model = copy.deepcopy(dense)
            ts.prune.prune(model, replace(method, sparsity=level), include=sentences.LAYERS)  # type: ignore[call-arg]
            for precision in MOST if pattern == QUANTIZED else ("float32",):
                yield pattern, level, precision, model


def prepare(place: Path) -> None:
    """Compile what is not there yet into folders of ``place``."""
    _, dense = loaded()
    tokens = torch.randint(1000, 20000, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    place.mkdir(parents=True, exist_ok=True)
    np.save(place / "tokens.npy", tokens.numpy())
    calibration = [(tokens,)]
    for pattern, level, precision, model in networks(dense):
        folder = place / f"{pattern}-{level}-{precision}".replace(" ", "_")
        if (folder / "facts.json").exists():
            continue
        folder.mkdir(exist_ok=True)
        states = States(model).eval()
        with torch.no_grad():
            expected = states(tokens).numpy()
        source: Any = (states, (tokens,))
        if precision == "int8":
            source = (ts.quantize(states, calibration, activations="dynamic"),)
        library = ts.compile(*source, config=ts.Config(measure=False))
        error = relative_error(library(tokens.numpy()), expected)
        if error > MOST[precision]:
            raise SystemExit(f"{folder.name}: error {error:.3g}")
        library.export(folder / "model.tvms", force=True)
        facts = {"pattern": pattern, "level": level, "precision": precision, "error": error}
        (folder / "facts.json").write_text(json.dumps(facts))
        print(folder.name, f"error {error:.2g}", flush=True)


def measure(place: Path, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each compiled network, timed in turns."""
    tokens = np.load(place / "tokens.npy")
    rows = {p.parent: json.loads(p.read_text()) for p in sorted(place.glob("*/facts.json"))}
    programs = {folder: partial(load(folder / "model.tvms"), tokens) for folder in rows}
    times = interleaved(programs, rounds)
    return [
        {**row, "median_us": round(times[folder]["median_us"], 1)} for folder, row in rows.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--step", choices=("all", "prepare", "time"), default="all")
    parser.add_argument("--place", type=Path, default=Path("/tmp/tvm-sparse-minilm"))
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    limit_threads(1)
    torch.set_num_threads(1)
    if arguments.step != "time":
        prepare(arguments.place)
    if arguments.step != "prepare":
        rows = measure(arguments.place, arguments.rounds)
        save(NAME, {"environment": environment(1), "rows": rows})


if __name__ == "__main__":
    main()
