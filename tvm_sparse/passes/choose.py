"""Decide for each layer how its weight is stored and computed, and record why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.config import Config
from tvm_sparse.decisions import Decision, Decisions
from tvm_sparse.errors import InputError
from tvm_sparse.ops.candidates import Candidate, dense_candidate, sparse_candidates
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.passes.measure import measure
from tvm_sparse.passes.times import Times
from tvm_sparse.patterns.detector import detect
from tvm_sparse.patterns.lowering import lower
from tvm_sparse.schedules.rule import ScheduleRule

HOPELESS = 1.25
"""Modelled cost over dense beyond which a storage is not even measured."""

BEHIND = 1.5
"""The same over the best storage: the model orders storages of one layer within some 20 %."""


@dataclass(frozen=True)
class Layer:
    """A contraction of the network with its weight.

    ``weight`` is ``(features, columns[, kh, kw])``, as in PyTorch.
    """

    name: str
    operator: str
    contraction: Contraction
    weight: np.ndarray = field(repr=False)

    @property
    def matrix(self) -> np.ndarray:
        """The weight as a matrix, columns in ``hwi`` order."""
        return lower(self.weight, "hwi")


@dataclass(frozen=True)
class Choice:
    """The candidate that was taken, its packed arrays, and what was measured: us by name."""

    candidate: Candidate
    arrays: dict[str, np.ndarray] = field(repr=False)
    times: dict[str, float] = field(default_factory=dict)


class Chooser:
    """Chooses per layer among dense and the storages that fit its zeros.

    ``notes`` are phrases that earlier passes left for a layer's reason. Candidates are measured
    with the schedules that the rules ``first`` have for them, or else with their default ones.
    """

    def __init__(
        self,
        target: Target,
        config: Config,
        decisions: Decisions,
        first: tuple[ScheduleRule, ...] = (),
    ) -> None:
        self.target, self.config, self.decisions = target, config, decisions
        self.first = first
        self.notes: dict[str, str] = {}
        self._times: dict[Any, dict[str, float]] = {}
        self.known = Times() if config.measure and config.cache else None

    def choose(self, layer: Layer) -> Choice:
        """Return the storage of ``layer`` and record the decision."""
        if not np.isfinite(layer.weight).all():
            position = tuple(int(i) for i in np.argwhere(~np.isfinite(layer.weight))[0])
            raise InputError(
                f"layer '{layer.name}'",
                f"weight{list(position)} is {layer.weight[position]}",
                "finite weights",
                "repair the checkpoint",
            )
        matrix = layer.matrix
        candidates, reasons = self._candidates(layer, matrix)
        packed = {c.name: c.storage.encode(matrix) for c in candidates}
        times = self._measure(layer, candidates, packed)
        best, reason = self._pick(layer, candidates, times, reasons)
        reason = "; ".join(filter(None, (self.notes.get(layer.name, ""), reason)))
        self._record(layer, best, reason, times)
        return Choice(best, packed[best.name], times)

    def leave(self, name: str, operator: str, weight: np.ndarray, reason: str) -> None:
        """Record that a layer keeps TVM's own operator, and why; one record a layer."""
        if any(d.layer == name for d in self.decisions):
            return
        zeros = float((weight == 0).mean())
        self.decisions.add(
            Decision(name, operator, tuple(weight.shape), zeros, "not examined", "dense", reason)
        )

    def _candidates(self, layer: Layer, matrix: np.ndarray) -> tuple[list[Candidate], list[str]]:
        dense = dense_candidate(layer.contraction, self.target)
        forced = self.config.forced(layer.name)
        if not self.config.sparse:
            return [dense], ["compiled dense on request (sparse=False)"]
        if forced == "dense":
            return [dense], ["dense on request (ignore or force)"]
        if not (matrix == 0).any():
            return [dense], ["no zeros"]
        found, reasons = [dense], []
        for candidate in sparse_candidates(layer.contraction, matrix, self.target):
            if isinstance(candidate, str):
                reasons.append(candidate)
            elif forced == candidate.name or candidate.cost <= HOPELESS:
                found.append(candidate)
            else:
                reasons.append(
                    f"{candidate.name} would execute {candidate.work:.0%} of the dense work,"
                    f" modelled {candidate.cost:.2f} times the dense time"
                )
        if forced is None:
            return _close(found, reasons)
        found = [c for c in found if c.name == forced]
        if not found:
            raise InputError(
                f"layer '{layer.name}'",
                f"does not fit '{forced}' ({'; '.join(reasons) or 'unknown storage'})",
                "a storage that fits",
                "change `force` in the configuration",
            )
        return found, ["forced by the configuration"]

    def _measure(
        self, layer: Layer, candidates: list[Candidate], packed: dict[str, Any]
    ) -> dict[str, float]:
        """Return times in us, measured once for equal shapes and storages."""
        if not self.config.measure or len(candidates) == 1:
            return {}
        static = _representative(layer.contraction)
        key = (static, *(c.storage for c in candidates))
        if key not in self._times:
            rng = np.random.default_rng(0)
            x = rng.standard_normal(static.input_shape, dtype=np.float32).astype(static.dtype)
            functions = {
                c.name: (self._rebuild(c, static, layer), list(packed[c.name].values()))
                for c in candidates
            }
            shape, rules = static.output_shape, self.first
            self._times[key] = measure(functions, x, shape, self.target, rules, known=self.known)
        return self._times[key]

    def _rebuild(self, candidate: Candidate, static: Contraction, layer: Layer) -> Any:
        """Return the operator for ``static`` extents (itself, unless the batch is dynamic)."""
        if static == layer.contraction:
            return candidate.func
        if candidate.name == "dense":
            return dense_candidate(static, self.target).func
        again = sparse_candidates(static, layer.matrix, self.target)
        return next(c.func for c in again if not isinstance(c, str) and c.name == candidate.name)

    def _pick(
        self,
        layer: Layer,
        candidates: list[Candidate],
        times: dict[str, float],
        reasons: list[str],
    ) -> tuple[Candidate, str]:
        if len(candidates) == 1:
            return candidates[0], "; ".join(reasons)
        if not times:
            best = min(candidates, key=lambda c: c.cost)
            return best, f"modelled {best.cost:.2f} times the dense time (not measured)"
        best = min(candidates, key=lambda c: times[c.name])
        rest = ", ".join(f"{c.name} {times[c.name]:.1f} us" for c in candidates if c is not best)
        return best, f"measured {times[best.name]:.1f} us against {rest}"

    def _record(self, layer: Layer, best: Candidate, reason: str, times: dict[str, float]) -> None:
        zeros = float((layer.weight == 0).mean())
        found = detect(layer.weight, depthwise=layer.contraction.depthwise) if zeros else None
        sparse = [t for name, t in times.items() if name != "dense"]
        self.decisions.add(
            Decision(
                layer=layer.name,
                operator=layer.operator,
                shape=tuple(layer.weight.shape),
                sparsity=zeros,
                pattern=found.best.pattern.describe() if found and found.best else "dense",
                chosen=best.name,
                reason=reason,
                dense_us=times.get("dense"),
                sparse_us=min(sparse) if sparse else None,
            )
        )


def _close(candidates: list[Candidate], reasons: list[str]) -> tuple[list[Candidate], list[str]]:
    """Leave out the storages that are modelled far behind the best one, with the reason."""
    best = min(candidates, key=lambda c: c.cost)
    kept, reasons = [], list(reasons)
    for candidate in candidates:
        if candidate.name == "dense" or candidate.cost <= BEHIND * best.cost:
            kept.append(candidate)
        else:
            behind = f"{candidate.cost:.2g} times the dense time, {best.name} {best.cost:.2g}"
            reasons.append(f"{candidate.name} is modelled {behind}")
    return kept, reasons


def _representative(contraction: Contraction) -> Contraction:
    """Return the contraction with symbolic extents set to one, for measuring."""
    from dataclasses import replace

    lead = tuple(e if isinstance(e, int) else 1 for e in contraction.lead)
    return replace(contraction, lead=lead)
