"""A plan: a level for each layer, what that is predicted to give, and whether it did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from tvm_sparse.base import json_text
from tvm_sparse.base.config import Config
from tvm_sparse.errors import InputError
from tvm_sparse.planning.budget import Budget, solved
from tvm_sparse.planning.check import Check
from tvm_sparse.planning.networks import alike, compiled
from tvm_sparse.planning.pareto import Pareto, pareto
from tvm_sparse.planning.reasons import reason
from tvm_sparse.planning.tables import BROKEN, Tables
from tvm_sparse.planning.timing import latency_us, timed_for
from tvm_sparse.program.library import Library
from tvm_sparse.pruning.compensation.calls import Batch
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.recipe import Recipe, layers_method, parse_recipe

DENSE = {"method": "dense"}
"""How recipes spell a layer that keeps all its weights, and adapts them."""


@dataclass(frozen=True)
class PlannedLayer:
    """One layer of a plan: its candidate, microseconds of it and of dense, bytes, and the reason.

    ``loss`` is what it adds to the drop of the outputs, if drops added up.
    """

    layer: str
    candidate: str
    zeros: float
    us: float
    dense_us: float
    nbytes: int
    loss: float
    reason: str


@dataclass(frozen=True)
class Plan:
    """A recipe made from a budget; see :func:`tvm_sparse.plan`.

    ``tables`` are what it was made of, ``choice`` the place of each layer's candidate in them.
    ``note`` says how it was corrected, if it was.
    """

    tables: Tables = field(repr=False, compare=False)
    budget: Budget
    numerics: str
    choice: tuple[int, ...] = field(repr=False)
    note: str = ""

    @classmethod
    def of(cls, tables: Tables, budget: Budget, note: str = "") -> Plan:
        """Return the plan that keeps ``budget``."""
        return cls(tables, budget, *solved(tables, budget), note)

    @property
    def method(self) -> LayerPruning:
        """The pruning method, for :func:`.one_shot`, :func:`.prune` and :class:`.Pruner`."""
        if not any(self.choice):
            raise InputError("plan", f"{self.budget} prunes no layer", "a tighter budget")
        return layers_method(self._spelled())

    @property
    def recipe(self) -> Recipe:
        """The plan as a recipe, the same that :meth:`save` writes."""
        return parse_recipe(self.to_json(), "plan")

    @property
    def latency_ms(self) -> float:
        """Predicted milliseconds of a call."""
        return self.tables.costs[self.numerics].whole_us(self.choice) / 1e3

    @property
    def speedup(self) -> float:
        """Predicted speed over the dense network in float32."""
        return self.tables.dense_us / 1e3 / self.latency_ms

    @property
    def nbytes(self) -> int:
        """Predicted bytes of packed weights."""
        return round(self.tables.costs[self.numerics].whole_bytes(self.choice))

    @property
    def drop(self) -> float:
        """Predicted drop after one-shot pruning, before any training."""
        own = self.tables.costs[self.numerics].drop
        return min(1.0, own + self.tables.drop_of(self.choice))

    @property
    def sparsity(self) -> float:
        """Fraction of zeros over the weights of all layers that may be pruned."""
        return self.tables.zeros_of(self.choice)

    @property
    def layers(self) -> list[PlannedLayer]:
        """What each layer gets and why, in the order of the network."""
        return [self._layer(i, c) for i, c in enumerate(self.choice)]

    def again(
        self,
        *,
        speedup: float | None = None,
        latency_ms: float | None = None,
        bytes: float | None = None,
        sparsity: float | None = None,
        max_drop: float | None = None,
    ) -> Plan:
        """Return the plan for another budget, from the same tables."""
        given = {"speedup": speedup, "latency_ms": latency_ms, "bytes": bytes}
        budget = Budget.of(**given, sparsity=sparsity, max_drop=max_drop)
        return Plan.of(self.tables, budget, self.note)

    def compile(
        self,
        model: nn.Module,
        example_inputs: Batch,
        calibration: Iterable[Batch] = (),
        config: Config | None = None,
    ) -> Library:
        """Compile ``model``, pruned by the plan, in its numerics and for its target.

        Batches of ``calibration`` that have the shapes of ``example_inputs`` give bytes their
        scales, where the numerics are such.
        """
        return compiled(
            model,
            self.numerics,
            example_inputs,
            alike(list(calibration), example_inputs),
            target=self.tables.target,
            config=config or Config(),
        )[0]

    def check(self, library: Library, inputs: Sequence[Any] | None = None) -> Check:
        """Measure ``library``, the pruned network compiled for the plan's target, on this machine.

        Parameters
        ----------
        library
            What :func:`tvm_sparse.compile` returned.
        inputs
            Its tensors in order; random ones by default.
        """
        if any(costs.source != "measured" for costs in self.tables.costs.values()):
            raise InputError(
                "plan, check",
                f"times on {self.tables.target} are modelled, not promised",
                "a plan that was made on that machine",
            )
        own, here = (self.tables.target, self.tables.threads), timed_for(library)
        if own != here:
            told = ["{}, {} threads".format(*pair) for pair in (here, own)]
            raise InputError(
                "plan, check", f"the library runs on {told[0]}", told[1], "set TVM_NUM_THREADS"
            )
        us = latency_us(library, inputs)
        return Check(self.latency_ms, us / 1e3, self.nbytes, library.nbytes)

    def corrected(self, check: Check) -> Plan:
        """Return the plan for the same budget after ``check``: itself, if the promise is kept.

        Otherwise what was measured more, or less, than promised is added to what belongs to no
        layer, and the budget is solved again. ``note`` says so.
        """
        if check.kept:
            return self
        own = self.tables.costs[self.numerics]
        more_us = 1e3 * (check.measured_ms - check.promised_ms)
        more_bytes = float(check.bytes - check.promised_bytes)
        changed = replace(
            own, rest_us=own.rest_us + more_us, rest_bytes=own.rest_bytes + more_bytes
        )
        tables = replace(self.tables, costs={**self.tables.costs, self.numerics: changed})
        note = (
            f"corrected by {more_us / 1e3:+.3g} ms and {more_bytes / 2**20:+.2g} MiB"
            " that the compiled network took over the tables"
        )
        return Plan.of(tables, self.budget, "; ".join(filter(None, [self.note, note])))

    def pareto(self) -> Pareto:
        """Return plans beside networks with one level everywhere."""
        return pareto(self.tables, (self.latency_ms, self.drop))

    def to_json(self) -> dict[str, Any]:
        """Return plain values: a recipe, with all else under the key ``plan``."""
        return {
            "method": "layers",
            "layers": self._spelled(),
            "numerics": self.numerics,
            "plan": {
                "budget": {self.budget.kind: self.budget.value},
                "predicted": {
                    "latency_ms": self.latency_ms,
                    "speedup": self.speedup,
                    "bytes": self.nbytes,
                    "drop": self.drop,
                    "sparsity": self.sparsity,
                    "times": self.tables.costs[self.numerics].source,
                },
                "layers": [vars(layer) for layer in self.layers],
                "note": self.note,
                "tables": self.tables.to_json(),
            },
        }

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON, which :func:`.load_recipe` reads, too, and return its path."""
        try:
            Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(str(path), f"cannot be written ({error.strerror})") from error
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            The file is no plan.
        """
        try:
            content = json_text.parsed(Path(path).read_text(encoding="utf-8"))
            tables = Tables.from_json(content["plan"]["tables"])
            ((kind, value),) = content["plan"]["budget"].items()
            labels = [layer["candidate"] for layer in content["plan"]["layers"]]
            choice = tuple(tables.candidates.index(label) for label in labels)
            found = cls(
                tables, Budget(kind, value), content["numerics"], choice, content["plan"]["note"]
            )
            if len(choice) != len(tables.layers) or found.numerics not in tables.costs:
                raise ValueError("its parts contradict each other")
        except OSError as error:
            raise InputError(str(path), f"cannot be read ({error.strerror})", "a plan") from error
        except BROKEN as error:
            raise InputError(
                str(path), "is no plan of this release", "what plan.save() wrote", "plan again"
            ) from error
        return found

    def _spelled(self) -> dict[str, dict[str, Any]]:
        pairs = zip(self.tables.layers, self.choice, strict=True)
        return {key: self.tables.recipes[c] or DENSE for key, c in pairs}

    def _layer(self, i: int, c: int) -> PlannedLayer:
        tables, costs = self.tables, self.tables.costs[self.numerics]
        return PlannedLayer(
            tables.layers[i],
            tables.candidates[c],
            tables.levels[c],
            round(float(costs.us[i, c]), 2),
            round(float(costs.us[i, 0]), 2),
            round(float(costs.nbytes[i, c])),
            float(tables.losses[i, c]),
            reason(self.tables, self.numerics, i, c, by_bytes=self.budget.kind == "bytes"),
        )

    def __str__(self) -> str:
        width = max(len(key) for key in self.tables.layers)
        kind = max(len(layer.candidate) for layer in self.layers)
        lines = [self.verdict(), *filter(None, [self.note])]
        lines += [
            f"  {r.layer:<{width}}  {r.candidate:<{kind}}  {r.dense_us:9.1f} -> {r.us:8.1f} us"
            f"  ({r.reason})"
            for r in self.layers
        ]
        return "\n".join(lines)

    def verdict(self) -> str:
        """Return in one line what is predicted."""
        costs = self.tables.costs[self.numerics]
        return (
            f"{self.budget}: {self.numerics}, {self.sparsity:.1%} zeros; predicted"
            f" {self.latency_ms:.4g} ms ({self.speedup:.2f}x dense float32, {costs.source}),"
            f" {self.nbytes / 2**20:.3g} MiB, drop {self.drop:.4f} before training"
        )
