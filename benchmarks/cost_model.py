"""How good the cost model is: its cheapest candidate of each layer against the measured best.

    python -m benchmarks.cost_model                              # every network, dense and pruned
    python -m benchmarks.cost_model --networks resnet50 --levels "75 %"
    python -m benchmarks.cost_model --shipped                    # costs fitted here left alone

Every candidate of every layer is timed on this machine, which has to be quiet, with the costs that
``tvm-sparse machine`` shows. The model is right where its cheapest candidate is the measured best
or at most 10 % slower. Writes ``results/cost_model.json`` after every network and level; exits with
1 below 90 %.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

SLACK = 1.1
"""Time over the best up to which a choice is as good."""

GOAL = 0.9
"""Fraction of layers in which the model has to be right."""


def right(layer: dict[str, Any]) -> bool:
    """Whether the modelled choice of ``layer`` is as good as the measured best."""
    return _loss(layer) <= SLACK


def row_of(network: str, level: str, layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is kept of a network: counts, the mean loss and the layers that were missed."""
    losses = [_loss(layer) for layer in layers]
    return {
        "network": network,
        "level": level,
        "layers": len(layers),
        "right": sum(map(right, layers)),
        "mean_loss": round(sum(losses) / len(losses) - 1, 4) if losses else None,
        "missed": [layer for layer in layers if not right(layer)],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many layers there are, in how many the model is right, and where it is not."""
    layers, hits = (sum(row[key] for row in rows) for key in ("layers", "right"))
    return {
        "layers": layers,
        "right": hits,
        "share": round(hits / layers, 3) if layers else None,
        "missed": [_miss(row, layer) for row in rows for layer in row["missed"]],
    }


def _loss(layer: dict[str, Any]) -> float:
    """Return the time of the modelled choice over that of the best one."""
    modelled = min(layer["costs"], key=layer["costs"].__getitem__)
    times = layer["us"]
    return float(times[modelled] / min(times.values()))


def _miss(row: dict[str, Any], layer: dict[str, Any]) -> str:
    modelled = min(layer["costs"], key=layer["costs"].__getitem__)
    best = min(layer["us"], key=layer["us"].__getitem__)
    where = f"{row['network']} {row['level']} {layer['name']}"
    return f"{where}: {modelled}, best {best} ({_loss(layer):.2f}x)"


def measured(model: Any, x: Any, *, shipped: bool) -> list[dict[str, Any]]:
    """Return modelled costs and measured times of every candidate, a layer each.

    Layers with a single candidate leave no choice and are not counted.
    """
    from tvm_sparse.base.config import Config
    from tvm_sparse.base.targets import parse_target
    from tvm_sparse.frontends.load import load
    from tvm_sparse.passes import pipeline
    from tvm_sparse.schedules.build import build_context
    from tvm_sparse.selection.candidates import sparse_candidates
    from tvm_sparse.selection.choose import Chooser
    from tvm_sparse.selection.decisions import Decisions
    from tvm_sparse.selection.layer_times import LayerTimes
    from tvm_sparse.selection.measure import Measured

    found: list[dict[str, Any]] = []

    class Recording(Chooser):
        """Has every candidate measured, those that the model rates far behind too."""

        def _candidates(self, layer: Any, scan: Any) -> tuple[list[Any], list[str]]:
            sparse = sparse_candidates(layer.contraction, scan, self.target)
            return [*self._dense(layer), *(c for c in sparse if not isinstance(c, str))], []

    class Noted(LayerTimes):
        def of(self, layer: Any, scan: Any, candidates: list[Any], packed: Any) -> Measured:
            times = super().of(layer, scan, candidates, packed)
            if times:
                costs = {c.name: round(c.cost, 4) for c in candidates}
                us = {name: round(time, 2) for name, time in times.items()}
                found.append({"name": layer.name, "costs": costs, "us": us})
            return times

    source, target = load(model, (x,)), parse_target("cpu").target
    chooser = Recording(target, Config(tuned=False, cache=not shipped), Decisions())
    chooser.times = Noted(target, chooser.config, (), chooser.notes)
    with build_context(target):
        mod = source.module
        for step in pipeline.lowering(source.weights, len(source.inputs), chooser):
            mod = step(mod)
    return found


def main() -> int:
    """Measure, write the result and say whether the goal is met."""
    from benchmarks.cases.model_programs import levels
    from benchmarks.cases.networks import NETWORKS, build
    from benchmarks.harness.common import environment, save
    from tvm_sparse.base.targets import parse_target
    from tvm_sparse.machine.fitted import costs_of, fitted_costs

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--levels", nargs="+", help="sparsities, as rows of cpu_models have them")
    parser.add_argument("--shipped", action="store_true", help="use no costs fitted here")
    options = parser.parse_args()
    with fitted_costs(not options.shipped):
        costs = costs_of(parse_target("cpu").target).to_json()
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for level, prune in levels(network, 1).items():
            if options.levels and level not in options.levels:
                continue
            model, x = build(network)
            prune(model)
            layers = measured(model, x, shipped=options.shipped)
            rows.append(row_of(network, level, layers))
            print(network, level, summary(rows[-1:])["share"], flush=True)
            facts = {"summary": summary(rows), "costs": costs, "environment": environment(1)}
            save("cost_model", {**facts, "rows": rows})
    total = summary(rows)
    print(f"right in {total['right']} of {total['layers']} layers", *total["missed"], sep="\n")
    return int(not total["layers"] or total["share"] < GOAL)


if __name__ == "__main__":
    sys.exit(main())
