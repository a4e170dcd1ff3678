"""Curves of modelled time over sparsity, with what was measured, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.target import Target

from tvm_sparse.selection.break_even import LEVELS, Point, Studied, break_even, curve
from tvm_sparse.selection.decisions import DENSE, Decision, Decisions

WIDTH, HEIGHT = 240, 120
"""Of a picture, in its own units. From left to right 0 to 100 % zeros."""

HIGHEST = 1.5
"""Time over dense at the upper edge; what is above is cut off."""


@dataclass(frozen=True)
class Curve:
    """Layers of one size and pattern: what is modelled, and what was measured.

    ``line`` are the points of an SVG polyline, ``dots`` places of measured layers.
    """

    layers: tuple[str, ...]
    shape: tuple[int, ...]
    pattern: str
    line: str
    dots: tuple[tuple[float, float], ...]
    verdict: str


def curves(decisions: Decisions, target: Target) -> list[Curve]:
    """Return one curve for all layers of equal size and pattern, in network order."""
    groups: dict[object, list[Decision]] = {}
    for decision in decisions:
        if (studied := decisions.studied.get(decision.layer)) is not None:
            groups.setdefault(_key(studied), []).append(decision)
    found = (_curve(group, decisions.studied[group[0].layer], target) for group in groups.values())
    return [c for c in found if c.line]


def _key(studied: Studied) -> tuple[object, ...]:
    pattern = studied.pattern
    return studied.contraction, pattern.kind, pattern.units(), studied.order


def _curve(group: Sequence[Decision], studied: Studied, target: Target) -> Curve:
    points = curve(studied, target)
    measured = [
        (d.sparsity, d.sparse_us / d.dense_us)
        for d in group
        if d.sparse_us and d.dense_us and d.chosen not in DENSE
    ]
    return Curve(
        layers=tuple(d.layer for d in group),
        shape=group[0].shape,
        pattern=_family(studied),
        line=" ".join("{:.1f},{:.1f}".format(*_place(p.sparsity, p.cost)) for p in points),
        dots=tuple(_place(*m) for m in measured),
        verdict=_verdict(points),
    )


def _family(studied: Studied) -> str:
    """Return the pattern's name without how much it keeps."""
    rows, cols = studied.pattern.units()
    size = f" {rows} x {cols}" if rows > 1 else f", banks of {cols}" if cols else ""
    return f"{studied.pattern.kind}{size}"


def _verdict(points: Sequence[Point]) -> str:
    zeros = break_even(points)
    if zeros is None:
        return f"no gain up to {100 * LEVELS[-1]:.0f} % zeros"
    at_most = " or less" if zeros == points[0].sparsity else ""
    return f"gains from {zeros:.0%} zeros{at_most}"


def _place(sparsity: float, cost: float) -> tuple[float, float]:
    """Return where a point lies in the picture."""
    return WIDTH * sparsity, HEIGHT * (1 - min(cost, HIGHEST) / HIGHEST)
