"""Trained modules of packages, pruned without and with some minutes of training: what is kept.

    python -m benchmarks.recovery --folder build/recovery --names Resemblyzer
    python -m benchmarks.recovery --folder build/recovery --networks "75 % zeros" --time

Writes ``results/recovery.json``; what was made in the folder is taken again.

A module is pruned by `ts.prune.one_shot`: with 50 % and 75 % zeros in each layer, with as many
where `ts.prune.layer_sparsities` says, and by plans for two, three and four times its speed. Plans
are checked, and corrected once. Each network is then trained by `ts.prune.distil`, without labels.
Scores are of compiled libraries in float32 and int8, one sample a call. ``--time`` runs all in
turns with the dense module in onnxruntime and OpenVINO, for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tvm_sparse as ts
from benchmarks.cases.modules.base import Data, TrainedModule, places_of
from benchmarks.cases.trained_modules import MODULES
from benchmarks.harness import common
from benchmarks.harness.threads import limit_threads
from benchmarks.peers.model_runtimes import OPENERS, write_onnx, write_quantized
from benchmarks.peers.open_files import RUNTIMES

NAME = "recovery"
DENSE = "dense"
LEVELS = {"50 % zeros": 0.5, "75 % zeros": 0.75}
CHOSEN = {f"{name}, levels a layer": sparsity for name, sparsity in LEVELS.items()}
PLANS = {
    "plan for 2x": 2.0,
    "plan for 3x": 3.0,
    "plan for 4x": 4.0,
}
STEPS = (0.25, 0.5, 0.625, 0.75, 0.875)
"""Levels that a layer may have."""

PRECISIONS = ("float32", "int8")

Facts = dict[str, Any]


def main() -> None:
    options = _arguments()
    limit_threads(1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    here = common.environment(1)
    rows = {row["module"]: row for row in common.load(NAME).get("rows", [])}
    for case in MODULES:
        if options.names and case.name not in options.names:
            continue
        work = options.folder / "made" / case.name.replace(" ", "_").replace(",", "")
        work.mkdir(parents=True, exist_ok=True)
        places = places_of(case, options.folder)
        found = _Measured(case, case.load(places), case.data(places), work, not options.untrained)
        old, new = rows.get(case.name, {}), found.row(options.networks, options.time)
        row = {"ms": {}} | old | new | {"networks": old.get("networks", {}) | new["networks"]}
        rows[case.name] = row | {"cpu": here["cpu"], "shared": options.shared}
        print(json.dumps(rows[case.name]), flush=True)
        ordered = [rows[one.name] for one in MODULES if one.name in rows]
        common.save(NAME, {"environment": here, "rows": ordered})


class _Measured:
    """The networks of one case: each a file of weights with its facts, and two libraries."""

    def __init__(
        self, case: TrainedModule, dense: nn.Module, data: Data, work: Path, training: bool
    ) -> None:
        self.case, self.dense, self.data, self.work = case, dense, data, work
        self.training = training

    def row(self, networks: list[str], timed: bool) -> dict[str, Any]:
        """Return facts and scores of ``networks``, trained and not, and times of all there are."""
        found: dict[str, Any] = {}
        outputs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for name, network, facts in self._networks([DENSE, *networks]):
            for precision in PRECISIONS:
                run = self._opened(name, network, precision)
                key = f"{name}, {precision}"
                outputs[key] = (
                    self._outputs(run, self.data.test[0]),
                    self._outputs(run, self.data.other[0]),
                )
                reference = outputs[f"{DENSE}, {PRECISIONS[0]}"]
                found[key] = facts | self._scores(outputs[key], reference)
                print(key, found[key], flush=True)
        row: dict[str, Any] = {
            "module": self.case.name,
            "measure": self.case.measure,
            "other": self.case.other,
            "networks": found,
        }
        return row | ({"ms": self._times()} if timed else {})

    def _scores(
        self, found: tuple[np.ndarray, np.ndarray], dense: tuple[np.ndarray, np.ndarray]
    ) -> Facts:
        """Return the scores of both kinds of inputs, and mean cosines to the dense outputs."""
        told: Facts = {}
        sides = zip(("", "other "), (self.data.test, self.data.other), found, dense, strict=True)
        for side, (_, scored), own, wanted in sides:
            lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(wanted, axis=1)
            cosines = (own * wanted).sum(1) / np.maximum(lengths, 1e-12)
            told[f"{side}score"] = round(scored(wanted)(own), 4)
            told[f"{side}cosine"] = round(float(cosines.mean()), 4)
        return told

    def _networks(self, names: list[str]) -> Iterator[tuple[str, nn.Module, Facts]]:
        for name in names:
            if name == DENSE:
                yield name, self.dense, {"zeros": 0.0, "seconds": 0.0}
                continue
            pruned = self._made(name, lambda name=name: self._pruned(name))
            yield name, *pruned
            if not self.training:
                continue
            longer = f"{name}, trained"
            yield longer, *self._made(longer, lambda pruned=pruned: self._trained(*pruned))

    def _made(
        self, name: str, make: Callable[[], tuple[nn.Module, Facts]]
    ) -> tuple[nn.Module, Facts]:
        """Return a network and its facts from their files, which are written first."""
        weights = self.work / f"{name}.pt"
        facts = weights.with_suffix(".json")
        if not facts.exists():
            begin = time.process_time()
            network, told = make()
            seconds = round(time.process_time() - begin, 1) + told.pop("before", 0.0)
            torch.save(network.state_dict(), weights)
            facts.write_text(json.dumps({**told, "zeros": _zeros(network), "seconds": seconds}))
        network = copy.deepcopy(self.dense)
        network.load_state_dict(torch.load(weights))
        return network, json.loads(facts.read_text())

    def _pruned(self, name: str) -> tuple[nn.Module, Facts]:
        if name in PLANS:
            return self._planned(PLANS[name])
        sparsities: dict[str, float] = {}
        method = ts.prune.BalancedPruning(LEVELS.get(name) or CHOSEN[name])
        if name in CHOSEN:
            sparsities = ts.prune.layer_sparsities(
                copy.deepcopy(self.dense),
                self.data.calibration,
                method,
                STEPS,
                ignore=self.case.ignore,
            )
        return self._shot(method, sparsities), {"steps": 0}

    def _planned(self, speedup: float) -> tuple[nn.Module, Facts]:
        """Return what a plan makes, corrected once if the compiled network takes other times."""
        example = self.data.test[0][0]
        plan = ts.plan(
            copy.deepcopy(self.dense),
            self.data.calibration,
            speedup=speedup,
            example_inputs=example,
            ignore=self.case.ignore,
            trials=self.case.trials,
        )
        network, check = self._checked(plan)
        facts: Facts = {"steps": 0, "off": [round(check.off, 3)]}
        if not check.kept:
            network, check = self._checked(plan.corrected(check))
            facts["off"].append(round(check.off, 3))
        return network, facts

    def _checked(self, plan: Any) -> tuple[nn.Module, Any]:
        network = self._shot(plan.method, {})
        library = ts.compile(network, (self.data.test[0][0],), config=ts.Config(measure=False))
        return network, plan.check(library)

    def _shot(self, method: Any, sparsities: dict[str, float]) -> nn.Module:
        network = copy.deepcopy(self.dense)
        ts.prune.one_shot(
            network,
            self.data.calibration,
            method,
            ignore=self.case.ignore,
            sparsities=sparsities,
        ).squash_mask()
        return network

    def _trained(self, pruned: nn.Module, facts: Facts) -> tuple[nn.Module, Facts]:
        network, case = copy.deepcopy(pruned), self.case
        batches = itertools.islice(self.data.training(), case.steps)
        losses = case.losses or None
        ts.prune.distil(network, self.dense, batches, case.steps, losses=losses, rate=case.rate)
        return network, {"steps": case.steps, "before": facts["seconds"]}

    def _opened(self, name: str, network: nn.Module, precision: str) -> Callable[..., Any]:
        """Return a library that the small runtime opens; it is compiled where it is not there."""
        from tvm_sparse_runtime import load

        place = self.work / f"{name}, {precision}.tvms"
        example = self.data.test[0][0]
        if not place.exists():
            source: Any = (network, (example,))
            if precision == "int8":
                calibration = [x for batch in self.data.calibration[:2] for x in batch.split(1)]
                source = (ts.quantize(network, calibration),)
            ts.compile(*source, config=ts.Config(measure=False)).export(place)
        return load(place)

    def _outputs(self, run: Callable[..., Any], inputs: list[Tensor]) -> np.ndarray:
        return np.concatenate([np.asarray(run(x.numpy())) for x in inputs])

    def _times(self) -> dict[str, float]:
        """Return milliseconds of every library that was made, and of other runtimes, in turns."""
        from tvm_sparse_runtime import load

        example = self.data.test[0][0]
        x = example.numpy()
        programs: dict[str, Callable[[], Any]] = {}
        for place in sorted(self.work.glob("*.tvms")):
            programs[f"ours, {place.stem}"] = lambda run=load(place): run(x)
        for precision, write in zip(PRECISIONS, (write_onnx, write_quantized), strict=True):
            file = self.work / f"{precision}.onnx"
            if not file.exists():
                write(self.dense, example, file, None)
            for runtime in filter(find_spec, RUNTIMES):
                programs[f"{runtime}, {precision}"] = OPENERS[runtime](file, x, 1)
        times = common.interleaved(programs, 15, 0.03)
        return {name: round(row["median_us"] / 1e3, 4) for name, row in times.items()}


def _zeros(network: nn.Module) -> float:
    """Return the share of zeros in all weights of layers."""
    weights = [p for p in network.parameters() if p.dim() > 1]
    return round(sum(int((p == 0).sum()) for p in weights) / sum(p.numel() for p in weights), 4)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.recovery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    every = [*LEVELS, *CHOSEN, *PLANS]
    parser.add_argument("--folder", type=Path, required=True, help="where all that is made is kept")
    parser.add_argument("--names", nargs="+", choices=[case.name for case in MODULES])
    parser.add_argument("--networks", nargs="*", choices=every, default=every)
    parser.add_argument("--untrained", action="store_true", help="leave the training out")
    parser.add_argument("--time", action="store_true", help="time all that the folder has")
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
