"""Measure the candidates of a layer, once for layers that are alike."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.notes import Notes
from tvm_sparse.base.numerics import samples
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.planes import planes_shapes
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.agreement import Agreement
from tvm_sparse.selection.alike import alike, form
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.cpu.transpositions import BEFORE, transpositions
from tvm_sparse.selection.layer import Layer
from tvm_sparse.selection.measure import Data, Measured, measure
from tvm_sparse.selection.times import Times
from tvm_sparse_runtime.libraries import LIBRARIES

TINY = 1e5
"""Operations of a dense layer below which nothing is measured: it takes about a microsecond."""


class Packed(dict[str, dict[str, np.ndarray]]):
    """The arrays of each candidate by its name, encoded when they are first asked for."""

    def __init__(self, matrix: np.ndarray, candidates: list[Candidate]) -> None:
        super().__init__()
        self.matrix, self.formats = matrix, {c.name: c.format for c in candidates}

    def __missing__(self, name: str) -> dict[str, np.ndarray]:
        self[name] = self.formats[name].encode(self.matrix)
        return self[name]


class LayerTimes:
    """Measures candidates with the schedules that the rules ``first`` have for them.

    Of what else counts for a layer it tells ``notes``.
    """

    def __init__(
        self, target: Target, config: Config, first: tuple[ScheduleRule, ...], notes: Notes
    ) -> None:
        self.target, self.config, self.first, self.notes = target, config, first, notes
        self._known: dict[Any, list[tuple[list[Candidate], Measured]]] = {}
        self._agreement = Agreement()
        self.recorded = Times() if config.measure and config.cache else None

    def of(
        self, layer: Layer, scan: Scan | None, candidates: list[Candidate], packed: Packed
    ) -> Measured:
        """Return times in us, measured once for equal shapes and formats.

        Layers whose formats are alike share times: compiling each of them takes a second.
        """
        static = layer.static()
        if any(c.name in LIBRARIES for c in candidates):
            return Measured()  # what is timed here is our own code
        if not self.config.measure or len(candidates) == 1 or layer.times * static.flops() < TINY:
            return Measured()
        key = (
            static,
            layer.planes,
            layer.skips_transpose,
            *((c.name, form(c.format)) for c in candidates),
        )
        known = self._known.setdefault(key, [])
        for theirs, times in known:
            if alike(candidates, theirs):
                return times
        if vouching := self._agreement.vouching(static.kind, static.flops(), candidates):
            self.notes.add(layer.name, f"the model was right about {vouching} layers like it")
            return Measured()
        planes = {c.name: c.planes for c in candidates if c.planes}
        turns = transpositions(layer.planes) if planes and layer.planes else {}
        turns = {
            name: turn for name, turn in turns.items() if layer.skips_transpose or name == BEFORE
        }
        timed = [self._rebuild(c, static, layer, scan) for c in candidates]
        if static != layer.contraction:
            packed = Packed(scan.weight if scan else layer.matrix, timed)
        functions = {c.name: c.func for c in timed}
        functions |= {name: func for name, (func, _) in turns.items()}

        def data(name: str) -> Data:
            if name in turns:
                return turns[name][1]
            own = (static.input_shape, static.output_shape)
            before, after = planes_shapes(planes[name]) if name in planes else own
            x = samples(np.random.default_rng(0), before, static.dtype)
            return Data(x, list(packed[name].values()), after, static.out_dtype)

        times = measure(functions, data, self.target, self.first, known=self.recorded)
        times.layer = layer.name
        turned = sum(times.pop(name) for name in turns)
        times |= {c.name: times[c.name] + turned for c in candidates if c.name not in planes}
        if turned:
            self.notes.add(layer.name, "times of channels last include transpositions")
        known.append((candidates, times))
        if not times.loaded:
            self._agreement.add(static.kind, static.flops(), candidates, times)
        return times

    def _rebuild(
        self, candidate: Candidate, static: Contraction, layer: Layer, scan: Scan | None
    ) -> Candidate:
        """Return the candidate for ``static`` extents: itself, unless some of its own are open.

        Its format may be another: what a tile holds depends on how many rows there are.
        """
        if static == layer.contraction:
            return candidate
        again = itertools.chain(
            dense_candidates(static, self.target),
            sparse_candidates(static, scan, self.target) if scan else (),
        )
        return next(c for c in again if not isinstance(c, str) and c.name == candidate.name)
