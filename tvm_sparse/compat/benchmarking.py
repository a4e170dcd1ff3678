"""Times of an engine's calls, by the names that DeepSparse gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BatchBenchmarkResult:
    """One timed call: seconds, samples, and its arrays where they were asked for."""

    time_start: float
    time_end: float
    batch_size: int
    inputs: Sequence[Any] | None = None
    outputs: Sequence[Any] | None = None

    @property
    def time_elapsed(self) -> float:
        """Seconds of the call."""
        return self.time_end - self.time_start


@dataclass(frozen=True)
class BenchmarkResults:
    """All timed calls in order."""

    results: tuple[BatchBenchmarkResult, ...]

    @property
    def num_batches(self) -> int:
        """Number of calls."""
        return len(self.results)

    @property
    def num_items(self) -> int:
        """Number of samples in all calls."""
        return sum(result.batch_size for result in self.results)

    @property
    def batch_times(self) -> list[float]:
        """Seconds of each call."""
        return [result.time_elapsed for result in self.results]

    @property
    def batches_per_second(self) -> float:
        """Calls a second."""
        return self.num_batches / sum(self.batch_times)

    @property
    def items_per_second(self) -> float:
        """Samples a second."""
        return self.num_items / sum(self.batch_times)

    @property
    def ms_per_batch(self) -> float:
        """Milliseconds a call."""
        return 1e3 / self.batches_per_second

    @property
    def ms_per_item(self) -> float:
        """Milliseconds a sample."""
        return 1e3 / self.items_per_second

    @property
    def inputs(self) -> list[Sequence[Any] | None]:
        """The arguments of each call, None where they were not asked for."""
        return [result.inputs for result in self.results]

    @property
    def outputs(self) -> list[Sequence[Any] | None]:
        """The results of each call, None where they were not asked for."""
        return [result.outputs for result in self.results]
