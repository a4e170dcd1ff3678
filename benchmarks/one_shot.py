"""What a trained transformer keeps when it is pruned without training, and with a little.

    python -m benchmarks.one_shot                     # every pattern and level, one-shot
    python -m benchmarks.one_shot --distil 0.5 0.75   # then distillation of the balanced ones

all-MiniLM-L6-v2, calibrated and tested on sentences of the docstrings of Python's library.
Quality is the mean cosine of pruned to dense embeddings of 256 held-out sentences, and the rank
correlation of their pairwise similarities.
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
from benchmarks.common import environment, load, save
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
CALIBRATION, TEST = 768, 256
PATTERNS: dict[str, Method] = {
    "balanced, bank 16": BalancedPruning(0.5),
    "balanced, bank 16, 2 rows share": BalancedPruning(0.5, share=2),
    "n of 8": BalancedPruning(0.5, bank=8),
    "2 of 4": BalancedPruning(0.5, bank=4),
    "unstructured": UnstructuredPruning(0.5),
    "blocks of 4 x 4": PatternPruning(Block(4, 4), 0.5),
    "blocks of 16 x 1": PatternPruning(Block(16, 1), 0.5),
    "joint, half and half": JointPruning(0.5, criterion="magnitude"),
}


class Data:
    """The dense network, its sentences, and what a pruned copy of it keeps."""

    def __init__(self, draw: int) -> None:
        self.tokenizer, self.dense = _loaded()
        texts = sentences.collect()
        test, rest = texts[:TEST], texts[TEST:]
        first = draw * CALIBRATION
        self.test = sentences.batches(self.tokenizer, test)
        self.calibration = sentences.batches(self.tokenizer, rest[first : first + CALIBRATION])
        self.training = sentences.batches(self.tokenizer, rest, size=48)
        self.wanted = sentences.embed(self.dense, self.test)

    def quality(self, model: nn.Module) -> dict[str, float]:
        """Return how much of the embeddings ``model`` keeps."""
        found = sentences.embed(model, self.test)
        return {
            "cosine": round(sentences.cosine(found, self.wanted), 4),
            "rank": round(sentences.rank_correlation(found, self.wanted), 4),
        }


def _loaded() -> tuple[Any, nn.Module]:
    package("transformers")
    return sentences.load()


def prune_once(data: Data, method: Method) -> tuple[dict[str, Any], nn.Module]:
    """Return magnitude and one-shot pruning by ``method`` side by side, and the better model."""
    plain = copy.deepcopy(data.dense)
    ts.prune.prune(plain, method, include=sentences.LAYERS)
    model = copy.deepcopy(data.dense)
    begin = time.perf_counter()
    pruner = ts.prune.one_shot(model, data.calibration, method, include=sentences.LAYERS)
    seconds = time.perf_counter() - begin
    assert pruner.report is not None
    row = {
        "sparsity": round(pruner.report.sparsity, 4),
        "seconds": round(seconds, 1),
        "magnitude": data.quality(plain),
        "one_shot": data.quality(model),
    }
    return row, model


def distilled(data: Data, sparsity: float, minutes: float) -> dict[str, Any]:
    """Return the balanced network of ``sparsity`` after one-shot pruning and ``minutes`` more."""
    row, model = prune_once(data, BalancedPruning(sparsity))
    begin = time.perf_counter()
    ts.prune.distil(model, data.dense, data.training[:4], 4)
    one = (time.perf_counter() - begin) / 4
    _, model = prune_once(data, BalancedPruning(sparsity))
    steps = int(minutes * 60 / one)
    begin = time.perf_counter()
    ts.prune.distil(model, data.dense, data.training[:steps], steps)
    seconds = time.perf_counter() - begin
    return {
        **row,
        "steps": steps,
        "distil_seconds": round(seconds),
        "distilled": data.quality(model),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--patterns", nargs="*", default=list(PATTERNS), choices=list(PATTERNS))
    parser.add_argument("--levels", nargs="*", type=float, default=list(LEVELS))
    parser.add_argument("--draws", type=int, default=3, help="draws of calibration sentences")
    parser.add_argument("--distil", nargs="*", type=float, default=[], help="levels to distil")
    parser.add_argument("--minutes", type=float, default=18, help="of distillation")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    old = load("one_shot") or {"rows": [], "distilled": []}
    rows = {(r["pattern"], r["level"], r["draw"]): r for r in old["rows"]}
    more = {r["level"]: r for r in old["distilled"]}
    for draw in range(0 if arguments.distil else arguments.draws):
        data = Data(draw)
        for pattern in arguments.patterns:
            for level in arguments.levels:
                method = replace(PATTERNS[pattern], sparsity=level)  # type: ignore[call-arg]
                row, _ = prune_once(data, method)
                key = (pattern, level, draw)
                rows[key] = {"pattern": pattern, "level": level, "draw": draw, **row}
                print(json.dumps(rows[key]), flush=True)
    for level in arguments.distil:
        more[level] = {"level": level, **distilled(Data(0), level, arguments.minutes)}
        print(json.dumps(more[level]), flush=True)
    save(
        "one_shot",
        {
            "environment": environment(arguments.threads),
            "rows": [rows[key] for key in sorted(rows)],
            "distilled": [more[key] for key in sorted(more)],
        },
    )


if __name__ == "__main__":
    main()
