"""What a trained transformer keeps when it is pruned without training, and with a little.

    python -m benchmarks.one_shot                     # every pattern and level, without swaps
    python -m benchmarks.one_shot --swaps --levels 0.75      # what swaps add
    python -m benchmarks.one_shot --distil 0.5 0.75   # distillation of the balanced ones
    python -m benchmarks.one_shot --distil 0.75 --by-layer   # with a plan's levels, equal zeros
    python -m benchmarks.one_shot --distil 0.75 --by-layer --varied --steps 4500   # for longer

all-MiniLM-L6-v2, calibrated and tested on sentences of the docstrings of Python's library.
Quality is the mean cosine of pruned to dense embeddings of 256 held-out sentences, and the rank
correlation of their pairwise similarities; and the mean cosine of sentences of another domain, the
manual pages and changelogs of the system. ``--varied`` also trains on the docstrings, comments,
messages and readmes of installed packages.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import replace
from typing import Any

import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.harness.common import environment, load, save
from examples import sentences
from tests.zoo import package
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import (
    BalancedPruning,
    JointPruning,
    Method,
    PatternPruning,
    UnstructuredPruning,
)

LEVELS = (0.5, 0.625, 0.75)
LAYER_LEVELS = (0.375, 0.5, 0.625, 0.75, 0.875)
CALIBRATION, TEST = 768, 256
TOKENS = 1024
"""Of a batch of distillation."""
RATE = 1.5e-3
OFTEN = 2
"""How often varied text has the sentences that are like the test's."""
NAME = "one_shot"
PATTERNS: dict[str, Method] = {
    "balanced, bank 16": BalancedPruning(0.5),
    "balanced, bank 16, 2 rows share": BalancedPruning(0.5, share=2),
    "n of 8": BalancedPruning(0.5, bank=8),
    "n of 4": BalancedPruning(0.5, bank=4),
    "unstructured": UnstructuredPruning(0.5),
    "blocks of 4 x 4": PatternPruning(Block(4, 4), 0.5),
    "blocks of 16 x 1": PatternPruning(Block(16, 1), 0.5),
    "blocks of 16 x 64": PatternPruning(Block(16, 64), 0.5),
    "joint, half and half": JointPruning(0.5, criterion="magnitude"),
}


class Data:
    """The dense network, its sentences, and what a pruned copy of it keeps."""

    def __init__(self, draw: int, *, varied: bool = False) -> None:
        self.tokenizer, self.dense = loaded()
        texts = sentences.collect()
        test, rest = texts[:TEST], texts[TEST:]
        first = draw * CALIBRATION
        self.text = "broad" if varied else "docstrings"
        self.test = sentences.batches(self.tokenizer, test)
        self.calibration = sentences.batches(self.tokenizer, rest[first : first + CALIBRATION])
        manuals = sentences.manuals()
        trained = rest
        if varied:
            trained = rest * OFTEN + sentences.packages([*texts, *manuals])
        numbers = [sentences.numbers(self.tokenizer, text) for text in trained]
        self.training = ts.prune.batches_by_length(numbers, TOKENS)
        self.wanted = sentences.embed(self.dense, self.test)
        self.other = sentences.batches(self.tokenizer, manuals)
        self.wanted_of_other = sentences.embed(self.dense, self.other) if manuals else None

    def quality(self, model: nn.Module) -> dict[str, float]:
        """Return how much of the embeddings ``model`` keeps."""
        found = sentences.embed(model, self.test)
        quality = {
            "cosine": round(sentences.cosine(found, self.wanted), 4),
            "rank": round(sentences.rank_correlation(found, self.wanted), 4),
        }
        if self.wanted_of_other is not None:
            other = sentences.cosine(sentences.embed(model, self.other), self.wanted_of_other)
            quality["other"] = round(other, 4)
        return quality


def loaded() -> tuple[Any, nn.Module]:
    """Return the tokenizer and the dense network."""
    package("transformers")
    return sentences.load()


def is_whole(pattern: str, level: float) -> bool:
    """Whether banks of ``pattern`` can keep just what ``level`` says."""
    bank = getattr(PATTERNS[pattern], "bank", 1)
    return bank == 1 or float(bank * level).is_integer()


def prune_once(data: Data, method: Method, **options: Any) -> tuple[dict[str, Any], nn.Module]:
    """Return magnitude and one-shot pruning by ``method`` side by side, and the better model."""
    plain = copy.deepcopy(data.dense)
    ts.prune.prune(plain, method, include=sentences.LAYERS)
    model = copy.deepcopy(data.dense)
    begin, used = time.perf_counter(), time.process_time()
    pruner = ts.prune.one_shot(model, data.calibration, method, include=sentences.LAYERS, **options)
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    assert pruner.report is not None
    row = {
        "sparsity": round(pruner.report.sparsity, 4),
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "magnitude": data.quality(plain),
        "one_shot": data.quality(model),
    }
    return row, model


def by_layer(data: Data, sparsity: float) -> tuple[dict[str, Any], nn.Module]:
    """Return the balanced network whose layers have levels of their own, with as many zeros.

    A plan chooses them.
    """
    begin = time.process_time()
    plan = ts.plan(
        data.dense,
        data.calibration[:4],
        sparsity=sparsity,
        example_inputs=data.calibration[0],
        levels=LAYER_LEVELS,
        include=sentences.LAYERS,
        config=ts.Config(cache=False, measure=False),
    )
    used = time.process_time() - begin
    row, model = prune_once(data, plan.method)
    levels = {layer.layer: layer.zeros for layer in plan.layers}
    return {**row, "choice_processor_seconds": round(used, 1), "sparsities": levels}, model


def distilled(
    data: Data, row: dict[str, Any], model: nn.Module, **length: float | None
) -> dict[str, Any]:
    """Return ``row`` of the pruned ``model`` with what distillation of a ``length`` makes of it."""
    begin, used = time.perf_counter(), time.process_time()
    losses = ts.prune.distil(model, data.dense, data.training, rate=RATE, progress=_told, **length)
    return {
        **row,
        "loss": "all terms",
        "text": data.text,
        "tokens": TOKENS,
        "cpu": environment(1)["cpu"],
        "steps": len(losses),
        "distil_seconds": round(time.perf_counter() - begin),
        "distil_processor_seconds": round(time.process_time() - used),
        "distilled": data.quality(model),
    }


def _told(step: int, steps: int, loss: float) -> None:
    if step % 100 == 0:
        print(f"step {step} of {steps}, loss {loss:.3f}", flush=True)


class Results:
    """The result file: each row is written when it is known, so a run may be cut short."""

    def __init__(self, threads: int) -> None:
        old = load(NAME) or {"rows": [], "distilled": []}
        self.environment = old.get("environment") or environment(threads)
        self.rows = {(r["pattern"], r["level"], r["draw"]): r for r in old["rows"]}
        self.swaps = {(r["pattern"], r["level"]): r for r in old.get("swaps", [])}
        self.distilled = {_trial(row): row for row in old["distilled"]}

    def save(self, row: dict[str, Any]) -> None:
        """Write what is known, and print ``row``, which is new."""
        print(json.dumps(row), flush=True)
        content = {
            "environment": self.environment,
            "rows": [self.rows[key] for key in sorted(self.rows)],
            "swaps": [self.swaps[key] for key in sorted(self.swaps)],
            "distilled": [self.distilled[key] for key in sorted(self.distilled)],
        }
        save(NAME, content)


def _trial(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a row of distillation is known by."""
    return row["level"], row["layers"], row.get("text", "docstrings"), row["steps"]


def every_pattern(results: Results, arguments: argparse.Namespace) -> None:
    """Prune once by each pattern, at each level, for each draw; what is known is not repeated."""
    for draw in range(arguments.draws):
        data = Data(draw)
        for level in arguments.levels:
            for pattern in arguments.patterns:
                key = (pattern, level, draw)
                if key in results.rows or not is_whole(pattern, level):
                    continue
                method = replace(PATTERNS[pattern], sparsity=level)  # type: ignore[call-arg]
                row, _ = prune_once(data, method, swaps=0)
                results.rows[key] = {"pattern": pattern, "level": level, "draw": draw, **row}
                results.save(results.rows[key])


def with_swaps(results: Results, arguments: argparse.Namespace) -> None:
    """Prune once by each pattern, at each level, with swaps and without."""
    data = Data(0)
    for level in arguments.levels:
        for pattern in arguments.patterns:
            if (pattern, level) in results.swaps or not is_whole(pattern, level):
                continue
            method = replace(PATTERNS[pattern], sparsity=level)  # type: ignore[call-arg]
            without, found = (prune_once(data, method, **o)[0] for o in ({"swaps": 0}, {}))
            row = {"pattern": pattern, "level": level, "without": without, "with": found}
            results.swaps[pattern, level] = row
            results.save(row)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--patterns", nargs="*", default=list(PATTERNS), choices=list(PATTERNS))
    parser.add_argument("--levels", nargs="*", type=float, default=list(LEVELS))
    parser.add_argument("--draws", type=int, default=3, help="draws of calibration sentences")
    parser.add_argument("--distil", nargs="*", type=float, default=[], help="levels to distil")
    parser.add_argument("--swaps", action="store_true", help="with swaps and without")
    parser.add_argument("--varied", action="store_true", help="distil on more varied text")
    parser.add_argument("--by-layer", action="store_true", help="distil with levels of each layer")
    parser.add_argument("--steps", type=int, default=460, help="of distillation")
    parser.add_argument("--seconds", type=float, help="of distillation at most")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = Results(arguments.threads)
    if arguments.swaps:
        with_swaps(results, arguments)
    elif not arguments.distil:
        every_pattern(results, arguments)
    for level in arguments.distil:
        data = Data(0, varied=arguments.varied)
        layers = "planned" if arguments.by_layer else "uniform"
        made = (
            by_layer(data, level)
            if arguments.by_layer
            else prune_once(data, BalancedPruning(level))
        )
        length = {"steps": arguments.steps, "seconds": arguments.seconds}
        row = distilled(data, *made, **length)
        row = {"level": level, "layers": layers, **row}
        results.distilled[_trial(row)] = row
        results.save(row)


if __name__ == "__main__":
    main()
