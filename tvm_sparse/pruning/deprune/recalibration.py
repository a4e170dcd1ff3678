"""Hardware-aware sparsity recalibration (HSR): kept vectors become multiples of the tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm_sparse.errors import InputError

TILE = 32
"""Vectors in a tile (Park et al., Fig. 6b: time falls when 32 more vectors are pruned)."""


@dataclass(frozen=True)
class Unaligned:
    """One layer before recalibration.

    ``kept`` vectors stay of ``total``: weights of a sub-GEMM of a depthwise layer, or filters of
    a PW-conv2. ``tied`` are the other PW-conv2 that lose the same filters.
    """

    name: str
    shape: tuple[int, ...]
    kept: int
    total: int
    tied: tuple[str, ...] = ()

    @property
    def overflow(self) -> int:
        """The paper's ``eps``: vectors in the ragged tile, 0 if there is none."""
        return self.kept % TILE

    @property
    def below(self) -> int:
        """Kept vectors when the ragged tile is dropped."""
        return self.kept - self.overflow

    @property
    def above(self) -> int:
        """Kept vectors when the ragged tile is filled up."""
        return min(self.below + TILE, self.total) if self.overflow else self.kept


Alpha = Callable[[Unaligned], float] | Mapping[str, float]
"""The speed-up when a layer's kept vectors go from ``kept`` down to ``below``, measured on the
target: a function, or a table by layer name."""


@dataclass(frozen=True)
class Recalibrated:
    """What became of a layer.

    ``mark`` is ``"o"`` (over-aligned: overflow dropped), ``"u"`` (under-aligned: tile filled up)
    or ``""`` (was aligned, or HSR is off).
    """

    kept: int
    mark: str
    alpha: float | None = None
    beta: float | None = None


def recalibrate(layers: Sequence[Unaligned], alpha: Alpha) -> list[Recalibrated]:
    """Align every layer's kept vectors to the tile (Park et al., section 5.2 and Fig. 7).

    ``beta = alpha / eps`` is the speed-up a dropped vector buys. The half of the unaligned layers
    with the highest ``beta`` drops its overflow, the others fill up their ragged tile, so that the
    overall sparsity stays about what it was. With an odd number of layers the middle one fills up.
    A layer that would keep nothing fills up too, whatever its ``beta``.

    Returns
    -------
    list
        One record a layer, in the order of ``layers``.
    """
    ragged = [layer for layer in layers if layer.overflow]
    alphas = {layer.name: _alpha(layer, alpha) for layer in ragged}
    betas = {layer.name: alphas[layer.name] / layer.overflow for layer in ragged}
    ranked = sorted(ragged, key=lambda layer: -betas[layer.name])
    over = {layer.name for layer in ranked[: len(ranked) // 2] if layer.below > 0}
    results = []
    for layer in layers:
        if not layer.overflow:
            results.append(Recalibrated(layer.kept, ""))
            continue
        kept, mark = (layer.below, "o") if layer.name in over else (layer.above, "u")
        results.append(Recalibrated(kept, mark, alphas[layer.name], betas[layer.name]))
    return results


def _alpha(layer: Unaligned, alpha: Alpha) -> float:
    if isinstance(alpha, Mapping):
        if layer.name not in alpha:
            raise InputError(
                layer.name, "has no entry in the alpha table", "the measured speed-up of each layer"
            )
        value = alpha[layer.name]
    else:
        value = alpha(layer)
    if not 0 < value < float("inf"):
        raise InputError(layer.name, f"alpha = {value}", "a finite speed-up above 0")
    return float(value)
