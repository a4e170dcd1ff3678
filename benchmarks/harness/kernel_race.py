"""Several weights of one layer, ours and the libraries', checked and then timed in turns."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import tvm

from benchmarks.cases.kernel_cases import Case
from benchmarks.harness.code_size import code_bytes
from benchmarks.harness.common import PAUSE, interleaved, relative_error
from benchmarks.peers.kernel_peers import as_array, copies, dense_peers, sparse_peers
from benchmarks.peers.narrow_peers import bytes_peers, half_peers
from tvm_sparse.base.numerics import FLOAT32, samples
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import reference
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates

BEHIND = 1.5
"""Modelled cost over the best one beyond which a format is not tried."""

DENSE = "dense"
OURS, LIBRARY = "ours", "library"
Times = dict[str, float]
DensePeers = Callable[[Case, np.ndarray, np.ndarray, int], dict[str, Callable[[], Any]]]

PEERS: dict[str, tuple[DensePeers, float]] = {
    "float32": (dense_peers, 1e-4),
    "uint8": (bytes_peers, 1e-6),
    "bfloat16": (half_peers, 0.01),
}
"""By the type of activations: the dense libraries, and how far results may differ, relative to the
largest one."""


class Race:
    """Programs that compute ``case`` on one input, each with a weight called by a key.

    ``weight`` is the dense weight (``features``, ``taps * columns`` in ``hwi`` order), drawn at
    random. Ours are built for ``cpu`` (this machine's, if empty). A pruned weight runs in each of
    our formats that fits it and is not modelled far behind the best; the fastest counts, whatever
    dense would take. ``peers`` returns the dense libraries, else those of :data:`PEERS`.
    """

    def __init__(
        self, case: Case, threads: int = 1, cpu: str = "", peers: DensePeers | None = None
    ) -> None:
        self.case, self.threads = case, threads
        usual, self.tolerance = PEERS[case.contraction.dtype]
        self.peers = peers or usual
        self.target = parse_target(f"cpu:{cpu}" if cpu else "cpu").target
        c = case.contraction
        rng = np.random.default_rng(0)
        self.x = samples(rng, c.input_shape, c.dtype)
        _clear_borders(case, self.x)
        self.weight = samples(rng, c.matrix_shape, c.numerics.weight)
        self.error = 0.0
        self._expected: dict[Hashable, np.ndarray] = {}
        self._programs: dict[tuple[Hashable, str, str], Callable[[], Any]] = {}
        self._times: dict[tuple[Hashable, str, str], Times] = {}
        self._code: dict[tuple[Hashable, str], Times] = {}

    def add_dense(self) -> None:
        """Add the unpruned layer: ours and every dense library that is installed."""
        expected = self._expected[DENSE] = reference(self.case.contraction, self.x, self.weight)
        for ours in dense_candidates(self.case.contraction, self.target):
            self._add(DENSE, OURS, ours.name, self._built(DENSE, ours, self.weight), expected)
        found = self.peers(self.case, self.x, self.weight, self.threads)
        for name, run in found.items():
            self._add(DENSE, LIBRARY, name, run, expected)

    def add_sparse(self, key: Hashable, mask: np.ndarray, libraries: bool = True) -> None:
        """Add the layer pruned by ``mask``: ours, and the sparse libraries (of floats)."""
        matrix = self.weight * mask.astype(self.weight.dtype)
        expected = self._expected[key] = reference(self.case.contraction, self.x, matrix)
        for candidate in self._formats(matrix):
            run = self._built(key, candidate, matrix)
            self._add(key, OURS, candidate.name, run, expected)
        if libraries and self.case.contraction.numerics == FLOAT32:
            for name, run in sparse_peers(self.case, self.x, matrix).items():
                self._add(key, LIBRARY, name, run, expected)

    def add_program(self, key: Hashable, name: str, run: Callable[[], Any]) -> None:
        """Add another library's program for the weight called ``key``, which is there already."""
        self._add(key, LIBRARY, name, run, self._expected[key])

    @property
    def scores(self) -> np.ndarray:
        """Magnitudes of :attr:`weight`, by which patterns prune."""
        return np.abs(self.weight.astype(np.float32))

    @property
    def programs(self) -> dict[tuple[Hashable, str, str], Callable[[], Any]]:
        """Every program by its weight's key, whose it is (ours, a library's) and its name."""
        return dict(self._programs)

    def run(self, rounds: int, seconds: float) -> None:
        """Time all programs in turns, for about ``seconds`` each in each of the ``rounds``."""
        pause = PAUSE if self.threads > 1 else 0.0
        self._times = interleaved(self._programs, rounds, seconds, pause)

    def ours(self, key: Hashable) -> dict[str, Times]:
        """Return the times of our formats of the weight called ``key``, after :meth:`run`."""
        return self._of(key, OURS)

    def code(self, key: Hashable, name: str) -> Times:
        """Return what building our format ``name`` took: ``compile_seconds``, ``code_bytes``."""
        return self._code[key, name]

    def libraries(self, key: Hashable) -> dict[str, Times]:
        """Return the times of the libraries with the weight called ``key``, after :meth:`run`."""
        return self._of(key, LIBRARY)

    def _of(self, key: Hashable, whose: str) -> dict[str, Times]:
        found = self._times.items()
        return {name: t for (weight, who, name), t in found if (weight, who) == (key, whose)}

    def _formats(self, matrix: np.ndarray) -> list[Candidate]:
        offered = sparse_candidates(self.case.contraction, Scan(matrix), self.target)
        found = [k for k in offered if not isinstance(k, str)]
        return [k for k in found if k.cost <= BEHIND * min(other.cost for other in found)]

    def _add(
        self, key: Hashable, whose: str, name: str, run: Callable[[], Any], expected: np.ndarray
    ) -> None:
        error = relative_error(as_array(run()), expected)
        if not error < self.tolerance:
            raise SystemExit(
                f"{self.case.name}, {key}: {whose} {name} differs from the reference by {error}"
            )
        self.error = max(self.error, error)
        self._programs[key, whose, name] = run

    def _built(self, key: Hashable, candidate: Candidate, matrix: np.ndarray) -> Callable[[], Any]:
        """Return the built operator on its operands; it walks through copies of cold weights."""
        start = time.process_time()
        module = build_function(candidate.func, self.target)
        seconds = time.process_time() - start
        code = {"compile_seconds": round(seconds, 3), "code_bytes": code_bytes(module)}
        self._code[key, candidate.name] = code
        run, c = module["main"], self.case.contraction
        arrays = list(candidate.format.encode(matrix).values())
        number = copies(sum(a.nbytes for a in arrays), self.case.cold)
        weights = itertools.cycle([[tvm.runtime.tensor(a) for a in arrays] for _ in range(number)])
        data = tvm.runtime.tensor(self.x)
        out = tvm.runtime.empty(c.output_shape, c.out_dtype, tvm.cpu())

        def call() -> Any:
            run(data, *next(weights), out)
            return out

        return call


def best(times: dict[str, Times]) -> tuple[str, float]:
    """Return name and median of the fastest of several programs."""
    return min(((n, t["median_us"]) for n, t in times.items()), key=lambda pair: pair[1])


def _clear_borders(case: Case, x: np.ndarray) -> None:
    """Zero the padding of a convolution's input."""
    if case.contraction.taps:
        size, _, _, padding = case.window
        inner = slice(padding, padding + size)
        kept = x[:, inner, inner].copy()
        x[:] = 0
        x[:, inner, inner] = kept
