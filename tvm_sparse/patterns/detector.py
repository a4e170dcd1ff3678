"""From a weight alone to its sparsity pattern: every kind and parameter, ranked by cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_sparse.patterns.analysis import Analysis
from tvm_sparse.patterns.base import Array, Fit, Pattern
from tvm_sparse.patterns.families import LAST, families
from tvm_sparse.patterns.lowering import ORDERS

MODEL_ERROR = 1.05
"""Costs that differ by no more than this factor are equal: the cost model is no better."""
NO_STRUCTURE = 1.1
"""A family that says nothing must be cheaper by more than this factor than one that does."""


@dataclass(frozen=True)
class Detection:
    """What the zeros of one weight say.

    ``candidates`` are all fits, the cheapest first (of costs that the model cannot tell apart,
    what says most about the mask); ``best`` is the first of them and always exists (unstructured
    or dense, if nothing else). ``near_misses`` are those that not every unit follows; one may be
    ``best``, when padding its violators costs less than any exact fit. ``sparsity`` is the
    fraction of zeros.
    """

    shape: tuple[int, ...]
    sparsity: float
    candidates: tuple[Fit, ...]

    @property
    def best(self) -> Fit:
        """The cheapest fit."""
        return self.candidates[0]

    @property
    def near_misses(self) -> tuple[Fit, ...]:
        """Fits with violations, the cheapest first."""
        return tuple(fit for fit in self.candidates if not fit.evidence.exact)


def detect(weight: Array, *, depthwise: bool = False, name: str = "weight") -> Detection:
    """Return the sparsity pattern of ``weight``, found from its zeros alone.

    Parameters
    ----------
    weight
        ``(out, in)``; of a convolution ``(out, in, k)`` or ``(out, in, kh, kw)`` (also 3-D), for
        which both column orders of :mod:`tvm_sparse.patterns.lowering` are tried. fp64, fp32,
        fp16, bf16 or integers.
    depthwise
        Whether it is the weight ``(channels, 1, kh, kw)`` of a depthwise convolution.
    name
        What errors call the weight: its fully qualified name.

    Raises
    ------
    InputError
        For NaN and infinite weights, with their position, and for other ranks.
    """
    return detection(Analysis(weight, depthwise=depthwise, name=name))


def detection(analysis: Analysis) -> Detection:
    """Return the sparsity pattern of an analysed weight; see :func:`detect`."""
    tried = families()
    fits: list[tuple[int, Fit]] = []
    for order in analysis.orders:
        scan = analysis.scan(order)
        for family in tried:
            fitting = family.depthwise is None or family.depthwise == analysis.depthwise
            if fitting and (family.ordered or order == ORDERS[0]):
                fits += enumerate(replace(fit, order=order) for fit in scan.once(family.find))
    return Detection(analysis.weight.shape, scan.sparsity, _ranked(fits, tried))


def _ranked(fits: list[tuple[int, Fit]], tried: list[type[Pattern]]) -> tuple[Fit, ...]:
    """Return distinct patterns by cost; those that cost as much as the cheapest, by family.

    ``fits`` come with their place among the fits of their family.
    """

    def cost(fit: Fit) -> float:
        return round(fit.cost.relative * (NO_STRUCTURE if type(fit.pattern) in LAST else 1), 9)

    limit = MODEL_ERROR * min(cost(fit) for _, fit in fits)

    def rank(placed: tuple[int, Fit]) -> tuple[int, int, float]:
        place, fit = placed
        cheap = cost(fit) <= limit
        family = tried.index(type(fit.pattern)) if cheap else len(tried)
        return family, place if cheap else 0, cost(fit)

    distinct: dict[Pattern, Fit] = {}
    for _, fit in sorted(fits, key=rank):
        distinct.setdefault(fit.pattern, fit)
    return tuple(distinct.values())
