"""What a pruning step did, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class LayerReport:
    """One weight: ``wanted`` and ``sparsity`` are fractions of zeros, ``weights`` its size.

    ``name`` is the layer's, with the parameter's after it where a layer has several weights.
    """

    name: str
    shape: tuple[int, ...]
    pattern: str
    wanted: float
    sparsity: float
    weights: int
    note: str = ""


@dataclass(frozen=True)
class Report:
    """All layers a method pruned, in network order, and the reason for each it did not.

    ``note`` is a sentence on all of them together.
    """

    method: str
    layers: tuple[LayerReport, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def sparsity(self) -> float:
        """Fraction of zeros over all weights of the pruned layers."""
        total = sum(layer.weights for layer in self.layers)
        return sum(layer.sparsity * layer.weights for layer in self.layers) / max(total, 1)

    def __getitem__(self, name: str) -> LayerReport:
        return next(layer for layer in self.layers if layer.name == name)

    def to_json(self) -> dict[str, object]:
        """Return plain values only, for ``json.dumps``."""
        return {
            "method": self.method,
            "sparsity": self.sparsity,
            "layers": [asdict(layer) for layer in self.layers],
            "skipped": dict(self.skipped),
            "note": self.note,
        }

    def __str__(self) -> str:
        width = max((len(layer.name) for layer in self.layers), default=0)
        lines = [f"{self.method}: {self.sparsity:.2%} zeros in {len(self.layers)} layers"]
        lines += [
            f"  {r.name:<{width}}  {r.sparsity:7.2%}  {r.pattern}  {'x'.join(map(str, r.shape))}"
            + (f"  ({r.note})" if r.note else "")
            for r in self.layers
        ]
        lines += [f"  {name}: skipped, {reason}" for name, reason in self.skipped.items()]
        lines += [self.note] if self.note else []
        return "\n".join(lines)
