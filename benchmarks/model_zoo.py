"""Models as users have them, through ``torch.compile`` and ``ts.compile``: errors and times.

    python -m benchmarks.model_zoo                       # all
    python -m benchmarks.model_zoo --names BERT "U-Net"  # some

Rows go to ``results/model_zoo.json``; a model measured again replaces its rows. Errors are against
eager PyTorch in float64. Kernels are chosen by the cost model.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import tvm_sparse as ts
from benchmarks.cases.zoo_models import MODELS, model_of
from benchmarks.dynamo import prune
from benchmarks.harness import common
from benchmarks.harness.threads import limit_threads
from tvm_sparse.schedules.kernel import GENERIC, Kernel

TOLERANCE = 2e-4
OPTIONS = {"measure": False}
WEIGHTS = ("dense", "pruned")


def main() -> None:
    """Measure the models and save their rows."""
    options = _arguments()
    limit_threads(1)
    torch.set_num_threads(1)
    saved = common.load("model_zoo").get("rows", [])
    rows = {(row["model"], row["weights"]): row for row in saved}
    for name in options.names or MODELS:
        for weights in options.weights:
            row = {"model": name, "weights": weights, **measured(name, weights, options)}
            row["environment"] = common.environment(1)
            print({key: value for key, value in row.items() if key != "environment"}, flush=True)
            assert row["error"] < TOLERANCE and row["error_library"] < TOLERANCE, "wrong results"
            rows[name, weights] = row
            if not options.dry:
                order = [rows[n, w] for n in MODELS for w in WEIGHTS if (n, w) in rows]
                common.save("model_zoo", {"rows": order})


@dataclass(frozen=True)
class Ways:
    """A model with the arguments of one call, eager and compiled in both ways, and errors.

    Errors are against eager PyTorch in float64.
    """

    model: nn.Module
    inputs: dict[str, Any]
    library: ts.Library
    fast: Any
    error: float
    error_library: float
    compile_s: float


def compiled(name: str, weights: str) -> Ways:
    """Return the model ``name`` with ``weights`` compiled in both ways."""
    torch._dynamo.reset()
    model, inputs = model_of(name)
    traced = torch._dynamo.config.patch(allow_rnn=True)
    with torch.no_grad(), warnings.catch_warnings(), traced:
        warnings.simplefilter("ignore", ts.errors.SlowKernelWarning)
        if weights == "pruned":
            prune(model)
        exact = copy.deepcopy(model).double()(**_wide(inputs))
        begin = time.perf_counter()
        library = ts.compile(model, (), inputs, config=ts.Config(measure=False))
        seconds = time.perf_counter() - begin
        fast = torch.compile(model, backend="tvm_sparse", fullgraph=True, options=OPTIONS)
        errors = (_error(program(**inputs), exact) for program in (fast, library))
        return Ways(model, inputs, library, fast, *errors, seconds)


def measured(name: str, weights: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return errors, times in us, and whose kernels take the time of one model."""
    found = compiled(name, weights)
    report = ts.partitions(found.fast)
    row: dict[str, Any] = {
        "compile_s": found.compile_s,
        "error_library": found.error_library,
        "error": found.error,
        "parts": len(report.parts),
        "left_to_pytorch": [e.operator for graph in report.graphs for e in graph.eager],
        "refused": [graph.refused for graph in report.graphs if graph.refused],
        **shares(found.library.profile(**found.inputs, repeat=5)),
    }
    programs = {"eager": found.model, "tvm_sparse": found.fast}
    if options.inductor:
        programs["inductor"] = torch.compile(found.model, options={"freezing": True})
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        times = common.interleaved(
            {n: lambda p=program: p(**found.inputs) for n, program in programs.items()},
            options.rounds,
            options.seconds,
        )
    return row | {"us": {n: t["median_us"] for n, t in times.items()}}


def shares(kernels: list[Kernel]) -> dict[str, Any]:
    """Return whose kernels take which share of the time.

    ``ours`` have an operator or a rule of ours, ``general`` are loops of TVM's operators with our
    general schedule, ``unscheduled`` are as TVM makes them. ``largest`` is the one of the last two
    that takes most, and its share.
    """
    total = sum(kernel.us for kernel in kernels)
    found, functions = dict.fromkeys(("ours", "general", "unscheduled"), 0.0), {"": 0.0}
    for kernel in kernels:
        general = kernel.ours and kernel.rule in GENERIC
        kind = "general" if general else "ours" if kernel.ours else "unscheduled"
        found[kind] += kernel.us / total
        if kind != "ours":
            before = functions.get(kernel.function, 0.0)
            functions[kernel.function] = before + kernel.us / total
    largest = max(functions, key=functions.__getitem__)
    return found | {"largest": largest, "largest_share": functions[largest]}


def _wide(inputs: dict[str, Any]) -> dict[str, Any]:
    return pytree.tree_map_only(
        torch.Tensor, lambda x: x.double() if x.is_floating_point() else x, inputs
    )


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _error(result: Any, exact: Any) -> float:
    assert type(result) is type(exact)
    pairs = zip(_tensors(result), _tensors(exact), strict=True)
    return max(common.relative_error(found, wanted) for found, wanted in pairs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", default=[], choices=MODELS, help="all without")
    parser.add_argument("--weights", nargs="+", default=WEIGHTS, choices=WEIGHTS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each round")
    parser.add_argument("--inductor", action="store_true", help="time PyTorch's own compiler, too")
    parser.add_argument("--dry", action="store_true", help="write no results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
