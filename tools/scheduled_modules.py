"""Structural hashes of the scheduled functions of whole networks, to show what a change keeps.

    python tools/scheduled_modules.py write before.json --networks digits resnet50
    python tools/scheduled_modules.py write after.json --networks digits resnet50
    python tools/scheduled_modules.py compare before.json after.json

Networks have random weights of fixed seeds. Nothing is built, run or measured: candidates are
chosen by the cost model, and schedules are the default ones or shipped records.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")
os.environ["TVM_NUM_THREADS"] = "1"  # schedules depend on it

LEVELS = {"dense": 16, "75": 4, "87.5": 2}
"""Columns that each row keeps of 16, by the fraction of zeros in percent."""

NETWORKS = ("operators", "digits", "resnet50", "bert_base", "mobilenet_v2")
OTHER = {
    "x86": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 1},
    "neon": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"], "num-cores": 1},
}
"""Targets that have no name of ours."""

TARGETS = ("cpu:znver5", "cpu:znver4", "cpu:haswell", "cuda:sm_90", *OTHER)


def written(
    networks: list[str], targets: list[str], levels: list[str], told: Callable[[str], None] = print
) -> dict[str, Any]:
    """Return the hashes of every network at every level for every target, by their names."""
    from benchmarks.cases.networks import prune_balanced

    found = {}
    if "operators" in networks:
        for target in targets:
            found[f"operators {target}"] = operators(target)
            told(f"operators {target}")
    for network in (name for name in networks if name != "operators"):
        for level in levels:
            model, x = _network(network)
            if LEVELS[level] < 16:
                prune_balanced(model, LEVELS[level])
            for target in targets:
                name = f"{network} {level} {target}"
                found[name] = hashes(model, x, target)
                told(name)
    return found


def hashes(model: Any, x: Any, target: str) -> dict[str, Any]:
    """Return the hashes of the module, of each function and of each packed array of ``model``."""
    import tvm_ffi

    from tvm_sparse.base.config import Config
    from tvm_sparse.frontends.load import load
    from tvm_sparse.passes import pipeline
    from tvm_sparse.schedules.build import build_context
    from tvm_sparse.selection.choose import Chooser
    from tvm_sparse.selection.decisions import Decisions
    from tvm_sparse.tuning.recorded import recorded_rules

    source, packed = load(model, (x,)), {}
    resolved, decisions = _target(target), Decisions()
    with tempfile.TemporaryDirectory() as empty:
        recorded = recorded_rules(resolved, empty)
        chooser = Chooser(resolved, Config(measure=False, cache=False), decisions, recorded)
        with build_context(resolved):
            mod = source.module
            for phase in (
                pipeline.canonicalise(source.weights, len(source.inputs)),
                pipeline.lower(chooser),
                pipeline.schedule(resolved, packed, first=recorded),
            ):
                for step in phase:
                    mod = step(mod)
    return {
        "module": _hex(tvm_ffi.structural_hash(mod, map_free_vars=True)),
        "functions": {
            var.name_hint: _hex(tvm_ffi.structural_hash(func, map_free_vars=True))
            for var, func in mod.functions.items()
        },
        "weights": {name: _sha(array) for name, array in packed.items()},
        "layers": {d.layer: f"{d.chosen}: {d.reason}" for d in decisions},
    }


def operators(target: str) -> dict[str, Any]:
    """Return the hashes of every candidate, scheduled, for small layers with all sorts of zeros."""
    import tvm_ffi

    from tvm_sparse.patterns.scan import Scan
    from tvm_sparse.schedules.build import build_context, scheduled
    from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates

    resolved, functions, weights, layers = _target(target), {}, {}, {}
    for name, contraction, matrix in _layers():
        found = [
            *dense_candidates(contraction, resolved),
            *sparse_candidates(contraction, Scan(matrix), resolved),
        ]
        layers[name] = "; ".join(c for c in found if isinstance(c, str))
        for candidate in (c for c in found if not isinstance(c, str)):
            key = f"{name} {candidate.name}"
            with build_context(resolved):
                mod = scheduled(candidate.func, resolved)
            functions[key] = _hex(tvm_ffi.structural_hash(mod, map_free_vars=True))
            layers[key] = f"{candidate.work} {candidate.penalty}"
            for array, value in candidate.format.encode(matrix).items():
                weights[f"{key} {array}"] = _sha(value)
    return {"module": "", "functions": functions, "weights": weights, "layers": layers}


def _layers() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the contraction and the weight matrix of each small layer."""
    import numpy as np

    from tvm_sparse.ops.contractions.contraction import Contraction
    from tvm_sparse.patterns.balanced import Balanced
    from tvm_sparse.patterns.block import Block

    rng = np.random.default_rng(0)
    plane = {"taps": (3, 3), "strides": (1, 1), "dilation": (1, 1)}
    contractions = {
        "row": Contraction((1,), 96, 160),
        "rows": Contraction((64,), 192, 128),
        "convolution": Contraction((1, 14, 14), 64, 128, padded=(16, 16), **plane),
        "depthwise": Contraction((1, 14, 14), 64, 64, padded=(16, 16), depthwise=True, **plane),
    }
    for name, contraction in contractions.items():
        dense = rng.standard_normal(contraction.matrix_shape).astype(np.float32)
        masks = {
            "anywhere": rng.random(dense.shape) < 0.1,
            "some blocks": np.repeat(rng.random((len(dense) // 16, dense.shape[1])) < 0.2, 16, 0),
        }
        if not contraction.depthwise:
            masks["2 of 16"] = Balanced(16, 2).project(np.abs(dense))
            masks["blocks"] = Block(32, 8).project(np.abs(dense), 3 / 4)
            masks["joint"] = masks["2 of 16"] & masks["blocks"]
        for zeros, mask in masks.items():
            yield f"{name} {zeros}", contraction, np.where(mask, dense, np.float32(0))
            half = np.where(mask, dense, 0).astype(np.float16).astype(np.float32)
            yield f"{name} {zeros} half", contraction, half


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a line for every case, function, array and layer that is not the same in both."""
    lines = [f"{name}: in one file only" for name in sorted(before.keys() ^ after.keys())]
    for name in sorted(before.keys() & after.keys()):
        for part in ("functions", "weights", "layers"):
            old, new = before[name][part], after[name][part]
            changed = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
            lines += [f"{name}: {part} {k}: {old.get(k)} -> {new.get(k)}" for k in changed]
        same = before[name]["functions"] == after[name]["functions"]
        if before[name]["module"] != after[name]["module"] and same:
            lines.append(f"{name}: the module differs, none of its functions does")
    return lines


def _network(name: str) -> tuple[Any, Any]:
    """Return a network in eval mode and its input."""
    if name != "digits":
        from benchmarks.cases.networks import build

        return build(name)
    import torch

    from tvm_sparse.demo.digits import build_model

    return build_model(), torch.zeros(1, 1, 8, 8)


def _target(name: str) -> Any:
    from tvm.target import Target

    from tvm_sparse.base.targets import parse_target

    return Target(OTHER[name]) if name in OTHER else parse_target(name).target


def _sha(array: Any) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def _hex(value: int) -> str:
    return f"{value & (1 << 64) - 1:016x}"


def main(arguments: list[str]) -> int:
    """Write the hashes into a file, or compare those of two; 1 if these differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write")
    write.add_argument("output", type=Path)
    write.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    write.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS))
    write.add_argument("--targets", nargs="+", default=list(TARGETS))
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "write":
        told = partial(print, file=sys.stderr, flush=True)
        found = written(options.networks, options.targets, options.levels, told)
        options.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 0
    lines = differences(
        json.loads(options.before.read_text()), json.loads(options.after.read_text())
    )
    print("\n".join(lines) or "no difference")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
