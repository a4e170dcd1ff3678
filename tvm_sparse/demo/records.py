"""What the demonstration found: one record a sparsity level, one for everything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tvm_sparse.comparison.latency import Latency
from tvm_sparse.selection.decisions import Decision


@dataclass(frozen=True)
class Level:
    """One sparsity of the network, compiled.

    Parameters
    ----------
    wanted, sparsity
        Fraction of zeros over the pruned layers, asked for and reached.
    accuracy
        Test accuracy ``untuned`` (pruned, before fine-tuning), ``pruned`` and ``compiled``.
    detected
        What was read from the zeros of the exported program alone.
    max_abs_error
        Largest difference to PyTorch over all outputs for all test ``images``; ``agreeing`` of
        them get the class that PyTorch gives.
    latency
        One image a call: ``sparse``, ``dense`` (the same pipeline, every layer dense and float) and
        ``pytorch`` (eager).
    numbers
        What layers multiply. In bytes, outputs are compared with those of the quantized program.
    """

    wanted: float
    sparsity: float
    accuracy: dict[str, float]
    detected: Any
    decisions: list[Decision]
    max_abs_error: float
    images: int
    agreeing: int
    latency: dict[str, Latency]
    numbers: str = "float32"

    @property
    def speedup(self) -> float:
        """How many times faster the sparse build is than our own dense build of floats."""
        return self.latency["dense"].median_us / self.latency["sparse"].median_us


@dataclass(frozen=True)
class Result:
    """All levels, the last one a second time in bytes, and the artifact of its floats.

    Parameters
    ----------
    accuracy_dense
        Test accuracy before pruning.
    size
        Bytes of the ``model`` (PyTorch's parameters and buffers) and of the artifact directories
        of our ``dense``, ``sparse`` and ``int8`` builds.
    fresh
        What the process that loaded the artifact with the runtime alone said about itself.
    environment
        Machine and versions.
    """

    accuracy_dense: float
    levels: list[Level]
    artifact: str
    size: dict[str, int]
    fresh: dict[str, Any]
    environment: dict[str, Any]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values only, for ``json.dumps``."""
        record = asdict(self)
        for plain, level in zip(record["levels"], self.levels, strict=True):
            plain["speedup"] = level.speedup
        return record
