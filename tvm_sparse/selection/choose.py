"""Decide for each layer how its weight is stored and computed, and record why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.notes import Notes
from tvm_sparse.errors import InputError
from tvm_sparse.machine.engine.registry import require_products
from tvm_sparse.machine.fitted import fitted_costs, source_of
from tvm_sparse.patterns.analysis import Analysis
from tvm_sparse.patterns.detector import detection
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.break_even import Studied
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.cpu.planes import planes_candidate
from tvm_sparse.selection.decisions import DENSE, ON_REQUEST, Decision, Decisions
from tvm_sparse.selection.layer import Layer, zeros
from tvm_sparse.selection.layer_times import LayerTimes, Packed
from tvm_sparse.selection.mask_picture import mask_picture
from tvm_sparse.selection.measure import Measured
from tvm_sparse.selection.pick import MARGIN, pick
from tvm_sparse.selection.recorded_ways import fastest_way
from tvm_sparse.selection.shortlist import shortlist
from tvm_sparse_runtime.libraries import LIBRARIES

HOPELESS = 1.25
"""Modelled cost over dense beyond which a format is not even measured."""


@dataclass(frozen=True)
class Choice:
    """The candidate that was taken, its packed arrays, and what was measured: us by name."""

    candidate: Candidate
    arrays: dict[str, np.ndarray] = field(repr=False)
    times: dict[str, float] = field(default_factory=dict)


class Chooser:
    """Chooses per layer among dense and the formats that fit its zeros.

    ``notes`` are what earlier passes said of layers, for their reasons; ``widened`` the layers
    whose weights they gave zeros that the network does not multiply. Candidates are measured
    with the schedules that the rules ``first`` have for them, or else with their default ones.
    ``extents`` are those of an example, by the names of symbols.
    ``done`` is called whenever one more layer of the network is settled.
    """

    def __init__(
        self,
        target: Target,
        config: Config,
        decisions: Decisions,
        first: tuple[ScheduleRule, ...] = (),
        done: Callable[[], None] = lambda: None,
        *,
        extents: Mapping[str, int] | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.target, self.config, self.decisions = target, config, decisions
        self.first, self.done, self.extents = first, done, dict(extents or {})
        if config.precision != Config.precision:
            require_products(config.precision, target)
        with fitted_costs(config.cache):
            decisions.costs = source_of(target)
        self.notes = Notes() if notes is None else notes
        self.widened: set[str] = set()
        self.times = LayerTimes(target, config, first, self.notes)

    def choose(self, layer: Layer) -> Choice:
        """Return the format of ``layer`` and record the decision."""
        with fitted_costs(self.config.cache):
            return self._choose(layer)

    def _choose(self, layer: Layer) -> Choice:
        layer.check_finite()
        why = self._why_dense(layer)
        if not why:
            # One copy in the order that detectors and formats want, instead of one in each.
            layer = layer.contiguous()
        analysis = layer.analysis()
        scan = None if why else layer.scan(analysis)
        candidates, left_out = self._candidates(layer, scan) if scan else (self._dense(layer), [])
        found = [fastest_way(c, self.first, self.target) for c in candidates]
        ways = {way.name: way for way, _ in found}
        # What is kept of candidates, to share their times, must not keep the weight.
        candidates = [replace(way, ways=None) for way, _ in found]
        packed = Packed(scan.weight if scan else layer.matrix, candidates)
        times = self.times.of(layer, scan, candidates, packed)
        best, how = pick(candidates, times)
        recorded = next(told for way, told in found if way.name == best.name)
        told = [self.notes.of(layer.name), recorded, why, how or "; ".join(left_out)]
        reasons = [*told, *_conditions(times, layer.name), best.rival]
        reason = "; ".join(filter(None, reasons))
        self._record(layer, analysis, best, reason, times)
        return Choice(ways[best.name], packed[best.name], times)

    def leave(self, name: str, operator: str, weight: np.ndarray, reason: str) -> None:
        """Record that a layer keeps TVM's own operator, and why; one record a layer."""
        if any(d.layer == name for d in self.decisions):
            return
        sparsity = zeros(weight)
        pattern = "not examined" if sparsity else "dense"
        self.decisions.add(
            Decision(name, operator, tuple(weight.shape), sparsity, pattern, "dense", reason)
        )

    def _why_dense(self, layer: Layer) -> str:
        """Return why no sparse format of ``layer`` is looked for, ``""`` if it is."""
        if not self.config.sparse:
            return ON_REQUEST
        if self.config.forced(layer.name) in DENSE:
            return "dense on request (ignore or force)"
        if layer.joined > 1:
            return ""  # the zeros between its groups are worth a format
        if not layer.sparsity:
            return "no zeros"
        few = layer.sparsity <= 1 - 1 / MARGIN and self.config.forced(layer.name) is None
        return f"{layer.sparsity:.2g} zeros: fewer than are worth a format" if few else ""

    def _dense(self, layer: Layer) -> list[Candidate]:
        """Return the ways that do not care for zeros, or the one that the configuration forces."""
        forced = self.config.forced(layer.name)
        found = [
            c
            for c in dense_candidates(layer.contraction, self.target)
            if c.name not in LIBRARIES or self._asks(c, forced)
        ]
        if forced not in DENSE or self.config.ignored(layer.name):
            return found
        return _only(forced, found, layer, [])

    def _asks(self, library: Candidate, forced: str | None) -> bool:
        """Whether a library may compute a layer: it is clearly faster than our own kernels."""
        worth = library.margin * library.cost <= 1
        return self.config.libraries and (worth or forced == library.name)

    def _candidates(self, layer: Layer, scan: Scan) -> tuple[list[Candidate], list[str]]:
        forced = self.config.forced(layer.name)
        found, reasons = self._dense(layer), []
        for candidate in _offered(layer, scan, self.target):
            if isinstance(candidate, str):
                reasons.append(candidate)
            elif candidate.name in LIBRARIES and not self._asks(candidate, forced):
                continue
            elif forced == candidate.name or candidate.cost <= HOPELESS:
                found.append(candidate)
            else:
                reasons.append(
                    f"{candidate.name} would execute {candidate.work:.0%} of the dense work,"
                    f" modelled {candidate.cost:.2f} times the dense time"
                )
        if forced is None:
            return shortlist(found, reasons)
        return _only(forced, found, layer, reasons), ["forced by the configuration"]

    def _record(
        self,
        layer: Layer,
        analysis: Analysis,
        best: Candidate,
        reason: str,
        times: dict[str, float],
    ) -> None:
        sparsity = layer.sparsity
        found = detection(analysis) if sparsity else None
        dense = [t for name, t in times.items() if name in DENSE]
        sparse = [t for name, t in times.items() if name not in DENSE]
        fit = found.best if found else None
        if sparsity:
            self.decisions.masks[layer.name] = mask_picture(layer.weight, fit)
        if fit is not None and layer.joined == 1:
            self.decisions.studied[layer.name] = Studied(layer.static(), fit.pattern, fit.order)
        if best.own_seconds is not None:
            self.decisions.own_us[layer.name] = best.own_seconds * 1e6 * layer.times
        self.decisions.add(
            Decision(
                layer=layer.name,
                operator=layer.operator,
                shape=tuple(layer.weight.shape),
                sparsity=sparsity,
                pattern=fit.pattern.describe() if fit is not None else "dense",
                chosen=best.name,
                reason=reason,
                dense_us=min(dense) if dense else None,
                sparse_us=min(sparse) if sparse else None,
                modelled_us=_modelled_us(best, layer.times),
            )
        )


def _offered(layer: Layer, scan: Scan, target: Target) -> Iterator[Candidate | str]:
    """Yield sparse candidates; where planes are wanted they keep zeros anywhere, untransposed."""
    planes = layer.planes
    for candidate in sparse_candidates(layer.contraction, scan, target):
        loose = not isinstance(candidate, str) and candidate.name == "unstructured"
        yield (
            planes_candidate(planes, scan, target, layer.skips_transpose)
            if loose and planes
            else candidate
        )
    if layer.contraction.depthwise and planes:
        yield planes_candidate(planes, scan, target, layer.skips_transpose)


def _modelled_us(best: Candidate, times: int) -> float | None:
    """Return the modelled time of all calls of a layer, if the model knows one."""
    return None if best.seconds is None else best.seconds * 1e6 * times


def _conditions(times: Measured, layer: str) -> Iterator[str]:
    """Yield notes on measured times: of another layer, or under load."""
    if times.layer not in ("", layer):
        yield f"times of '{times.layer}', whose formats are alike"
    if times.loaded:
        yield "measured while other programs ran"


def _only(forced: str, found: list[Candidate], layer: Layer, reasons: list[str]) -> list[Candidate]:
    """Return the candidate called ``forced``; refuse one that ``layer`` does not fit."""
    if only := [c for c in found if c.name == forced]:
        return only
    raise InputError(
        f"layer '{layer.name}'",
        f"does not fit '{forced}' ({'; '.join(reasons) or 'unknown format'})",
        "a format that fits",
        "change `force` in the configuration",
    )
