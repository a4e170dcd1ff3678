"""Single layers of every form on this CPU against dense runtimes, one thread, verified.

    python -m benchmarks.layers_zoo --kinds Conv1d Conv3d     # some forms
    python -m benchmarks.layers_zoo --first 1 --eager         # a quick look at everything

Rows go to ``results/layers_zoo.jsonl``, one JSON object a line; a layer measured again replaces
its row. Layers that multiply weights are compiled dense and with 75 % of their weights zero.
Baselines that are not installed (extra ``bench``) are left out.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness.threads import limit_threads

TOLERANCE = 2e-4
SPARSITY = 0.75

Program = Callable[[], Any]


def main() -> None:
    options = _arguments()
    limit_threads(1)
    from benchmarks.cases.layer_cases import contractions
    from benchmarks.cases.other_cases import others
    from benchmarks.harness.common import RESULTS

    path = RESULTS / f"{options.name}.jsonl"
    rows = _kept(path)
    for case in _wanted([*contractions(), *others()], options):
        row = _row(case, options)
        print(_line(row), flush=True)
        rows[case.kind, case.label] = row
        if not options.dry:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


def _kept(path: Any) -> dict[tuple[str, str], dict[str, Any]]:
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text().splitlines())
    return {(row["kind"], row["label"]): row for row in rows}


def _wanted(found: list[Any], options: argparse.Namespace) -> Iterator[Any]:
    seen: dict[str, int] = {}
    for case in found:
        if options.kinds and not any(k.lower() in case.kind.lower() for k in options.kinds):
            continue
        seen[case.kind] = seen.get(case.kind, 0) + 1
        if seen[case.kind] <= options.first:
            yield case


def _row(case: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of one layer: medians in us, ratios over the best dense runtime."""
    row: dict[str, Any] = {"kind": case.kind, "label": case.label}
    try:
        programs, errors, kernels = _programs(case, options)
    except Exception as error:  # a layer that cannot be compiled is a result
        if options.trace:
            traceback.print_exc()
        return row | {"error": f"{type(error).__name__}: {error}"[:400]}
    from benchmarks.harness.common import environment, interleaved

    row["errors"] = errors
    wrong = [name for name, e in errors.items() if not e < TOLERANCE]
    if wrong:
        return row | {"error": f"wrong: {wrong} {errors}"}
    times = {n: t["median_us"] for n, t in interleaved(programs, options.rounds, 0.01).items()}
    peers = {n: t for n, t in times.items() if not n.startswith("ours")}
    best = min(peers, key=peers.__getitem__)
    row |= {"us": {n: round(t, 1) for n, t in times.items()}, "best": best}
    row["dense"] = round(peers[best] / times["ours"], 3)
    row["eager"] = round(peers["eager"] / times["ours"], 3)
    if "ours 75 %" in times:
        row["sparse"] = round(times["ours"] / times["ours 75 %"], 3)
    return row | {"kernels": kernels, "environment": environment(1)}


def _programs(
    case: Any, options: argparse.Namespace
) -> tuple[dict[str, Program], dict[str, float], Any]:
    import torch

    import tvm_sparse as ts
    from benchmarks.harness.common import relative_error
    from benchmarks.peers.layer_peers import peers

    module, x = case.made()
    variants = {"ours": module}
    if not options.dense and any(p.dim() > 1 for p in module.parameters()):
        variants["ours 75 %"] = pruned(copy.deepcopy(module))
    programs: dict[str, Program] = {}
    errors, kernels = {}, {}
    for name, variant in variants.items():
        library = ts.compile(variant, (x,), target="cpu")
        with torch.no_grad():
            expected = variant(x)
        got = library(x)
        got = got[0] if isinstance(got, tuple | list) else got
        errors[name] = relative_error(got, expected)
        if options.kernels:
            kernels[name] = [
                f"{k.function} [{k.rule}] {k.us:.0f}" for k in library.profile(x, repeat=3)
            ]
        else:
            kernels[name] = [f"{k.function} [{k.rule}]" for k in library.kernels]
        programs[name] = _prepared(library, x)
    for name, program in peers(module, x, everything=not options.eager).items():
        with torch.no_grad():
            errors[name] = relative_error(program(), module(x))
        programs[name] = program
    return programs, errors, kernels


def _prepared(library: Any, x: Any) -> Program:
    library(x)
    return lambda: library(x)


def pruned(module: Any) -> Any:
    """Zero the smallest 75 % of every weight matrix of ``module``."""
    import torch

    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                size = parameter.abs().flatten()
                least = size.kthvalue(max(1, int(SPARSITY * size.numel()))).values
                parameter[parameter.abs() <= least] = 0
    return module


def _line(row: dict[str, Any]) -> str:
    head = f"{row['kind']:28s} {row['label'][:44]:44s}"
    if "error" in row:
        return f"{head} {row['error']}"
    sparse = f" sparse {row['sparse']:.2f}" if "sparse" in row else ""
    ours, best = row["us"]["ours"], row["us"][row["best"]]
    text = f"{head} {ours:9.1f} us, {row['best']} {best:9.1f}: {row['dense']:6.2f}x{sparse}"
    kernels = row["kernels"]
    return text + (f"\n    {kernels}" if os.environ.get("KERNELS") else "")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=[], help="parts of names of forms")
    parser.add_argument("--first", type=int, default=99, help="shapes of each form")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--eager", action="store_true", help="no other baseline")
    parser.add_argument("--dense", action="store_true", help="nothing pruned")
    parser.add_argument("--kernels", action="store_true", help="note the time of each kernel")
    parser.add_argument("--dry", action="store_true", help="write no results")
    parser.add_argument("--trace", action="store_true", help="print traces of errors")
    parser.add_argument("--name", default="layers_zoo", help="of the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
