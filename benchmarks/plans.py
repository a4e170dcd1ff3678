"""Plans for two, three and four times the speed, beside one level in every layer.

    python -m benchmarks.plans                      # digits, resnet, minilm
    python -m benchmarks.plans --models digits --threads 1

All networks are trained, pruned by `ts.prune.one_shot` without training, compiled and timed here. A
drop is one minus the mean cosine of the outputs to the dense network's, on held-out data. What one
level everywhere would lose in a plan's measured time is read between the levels' measured times.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tvm_sparse as ts
from benchmarks.harness.common import environment, load, save
from benchmarks.harness.threads import limit_threads
from tvm_sparse.planning.plan import Plan
from tvm_sparse.planning.stitching import drop_of, outputs
from tvm_sparse.planning.timing import latency_us

NAME = "plans"
LEVELS = (0.5, 0.625, 0.75, 0.875, 0.9375)
SPEEDUPS = (2.0, 3.0, 4.0)
ATTEMPTS = 3
"""Plans for a budget: the first one, and corrected ones."""


@dataclass(frozen=True)
class Case:
    """A trained network with its data; ``accuracy`` is of labels, where there are some."""

    model: nn.Module
    calibration: list[Any]
    test: list[Any]
    example: Any
    include: tuple[str, ...] = ("*",)
    accuracy: Callable[[nn.Module], float] | None = None
    options: dict[str, Any] | None = None
    quick: bool = False


class Block(nn.Module):
    """Two 3x3 convolutions beside a connection that skips them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.skip = nn.Conv2d(before, after, 1, stride) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations."""
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + self.skip(x))


def resnet(widths: tuple[int, ...] = (32, 64, 128)) -> nn.Sequential:
    """Return a small residual network for digits, which it first makes 16 x 16."""
    torch.manual_seed(0)
    blocks: list[nn.Module] = []
    for before, after in itertools.pairwise((widths[0], *widths)):
        blocks += [Block(before, after, 1 if before == after else 2), Block(after, after, 1)]
    return nn.Sequential(
        nn.Upsample(scale_factor=2),
        nn.Conv2d(1, widths[0], 3, padding=1),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[-1], 10),
    )


def _images(model: nn.Module, epochs: int) -> Case:
    from tvm_sparse.demo import digits

    data = digits.load()
    digits.train(model, data, epochs)
    images = torch.from_numpy(data.train_images[:512])
    return Case(
        model,
        list(images.split(64)),
        [torch.from_numpy(data.test_images)],
        images[:1],
        accuracy=lambda m: digits.accuracy(m, data),
    )


def digits_case() -> Case:
    """Return the demonstration's network in the style of VGG."""
    from tvm_sparse.demo import digits

    return _images(digits.build_model(), 8)


def resnet_case() -> Case:
    """Return a small residual network."""
    return _images(resnet(), 6)


def minilm_case() -> Case:
    """Return all-MiniLM-L6-v2 for one sentence of 64 tokens."""
    from examples import sentences
    from tests.zoo import package

    package("transformers")
    tokenizer, model = sentences.load()
    texts = sentences.collect()
    tokens = torch.randint(1000, 20000, (1, 64), generator=torch.Generator().manual_seed(0))
    return Case(
        model,
        sentences.batches(tokenizer, texts[256 : 256 + 192]),
        sentences.batches(tokenizer, texts[:128]),
        {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
        include=sentences.LAYERS,
        options={"trials": 60},
    )


CASES = {"digits": digits_case, "resnet": resnet_case, "minilm": minilm_case}


def pruned(case: Case, method: Any) -> dict[str, Any]:
    """Return what a copy of the network keeps and takes, pruned by ``method``; and the library."""
    model = copy.deepcopy(case.model)
    pruner = ts.prune.one_shot(model, case.calibration, method, include=case.include)
    pruner.squash_mask()
    library = ts.compile(model, case.example)
    wanted = [outputs(case.model, batch) for batch in case.test]
    row: dict[str, Any] = {
        "drop": round(drop_of([outputs(model, batch) for batch in case.test], wanted), 5),
        "bytes": library.nbytes,
        "library": library,
    }
    if case.accuracy is not None:
        row["accuracy"] = round(case.accuracy(model), 4)
    return row


def quick(plan: Plan, case: Case) -> dict[str, Any]:
    """Return a row for ``plan`` whose drop is predicted: times need the pattern only."""
    model = copy.deepcopy(case.model)
    ts.prune.prune(model, plan.method).squash_mask()
    library = ts.compile(model, case.example)
    return {"drop": round(plan.drop, 5), "bytes": library.nbytes, "library": library}


def uniform(case: Case) -> list[dict[str, Any]]:
    """Return a row for each level that all layers have."""
    rows = []
    for level in LEVELS:
        row = pruned(case, ts.prune.BalancedPruning(level))
        row["ms"] = round(latency_us(row.pop("library"), _tensors(case)) / 1e3, 5)
        rows.append({"level": level, **row})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def tabled(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each level that all layers have, from the tables of ``plan``."""
    levels = zip(plan.pareto().rows, plan.tables.levels[1:], strict=True)
    return [
        {"level": level, "ms": round(row.latency_ms, 5), "drop": round(row.uniform, 5)}
        for row, level in levels
    ]


def planned(case: Case, plan: Plan) -> dict[str, Any]:
    """Return a row for ``plan``; one whose promise is not kept is corrected, and tried again."""
    for attempt in range(ATTEMPTS):
        row = quick(plan, case) if case.quick else pruned(case, plan.method)
        check = plan.check(row.pop("library"), _tensors(case))
        row |= {
            "speedup": plan.budget.value,
            "promised_ms": round(check.promised_ms, 5),
            "ms": round(check.measured_ms, 5),
            "off": round(check.off, 4),
            "kept": check.kept,
            "corrected": attempt > 0,
            "zeros": round(plan.sparsity, 4),
            "predicted_drop": round(plan.drop, 5),
        }
        if check.kept or attempt + 1 == ATTEMPTS:
            break
        try:
            plan = plan.corrected(check)
        except ts.InputError as error:
            row["error"] = str(error)
            break
    print(json.dumps(row), flush=True)
    return row


def equal(rows: list[dict[str, Any]], dense_ms: float, ms: float) -> float | None:
    """Return the drop that one level everywhere has at ``ms``; ``None`` if none is that fast."""
    points = sorted([(dense_ms, 0.0), *((row["ms"], row["drop"]) for row in rows)])
    times, drops = zip(*points, strict=True)
    return None if ms < times[0] else round(float(np.interp(ms, times, drops)), 5)


def _tensors(case: Case) -> list[np.ndarray]:
    example = case.example
    tensors = example.values() if isinstance(example, dict) else [example]
    return [tensor.numpy() for tensor in tensors]


def run(name: str, threads: int, *, in_a_hurry: bool = False) -> dict[str, Any]:
    """Return the results of one network."""
    case = replace(CASES[name](), quick=in_a_hurry)
    begin, used = time.perf_counter(), time.process_time()
    first = ts.plan(
        case.model,
        case.calibration,
        speedup=1.01,
        example_inputs=case.example,
        include=case.include,
        levels=LEVELS,
        config=ts.Config(cache=False),
        **(case.options or {}),
    )
    tables = {
        "seconds": round(time.perf_counter() - begin, 1),
        "processor_seconds": round(time.process_time() - used, 1),
    }
    dense_ms = first.tables.dense_us / 1e3
    print(first.pareto(), flush=True)
    plans = []
    for speedup in SPEEDUPS:
        begin = time.perf_counter()
        try:
            plan = first.again(speedup=speedup)
        except ts.InputError as error:
            plans.append({"speedup": speedup, "error": str(error)})
            continue
        again = time.perf_counter() - begin
        plans.append({**planned(case, plan), "again_seconds": round(again, 3)})
    levels = tabled(first) if case.quick else uniform(case)
    for row in plans:
        if "ms" in row:
            row["uniform_drop"] = equal(levels, dense_ms, row["ms"])
    result: dict[str, Any] = {
        "environment": environment(threads),
        "quick": case.quick,
        "dense_ms": round(dense_ms, 5),
        "tables": tables,
        "plans": plans,
        "uniform": levels,
    }
    if case.accuracy is not None:
        result["accuracy"] = round(case.accuracy(case.model), 4)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--threads", type=int, default=1, help="threads of all libraries")
    parser.add_argument("--quick", action="store_true", help="take drops from the tables")
    arguments = parser.parse_args()
    limit_threads(arguments.threads)
    torch.set_num_threads(arguments.threads)
    for name in arguments.models:
        found = run(name, arguments.threads, in_a_hurry=arguments.quick)
        save(NAME, {**load(NAME), name: found})


if __name__ == "__main__":
    main()
