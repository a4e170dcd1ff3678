"""Plans beside networks with one level everywhere: a table and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tvm_sparse.errors import InputError
from tvm_sparse.planning.budget import Budget, solved
from tvm_sparse.planning.tables import Point, Tables

WIDTH, HEIGHT, MARGIN = 640, 400, 60
"""Of the picture, in its own units."""


@dataclass(frozen=True)
class Row:
    """A network with one candidate everywhere, and the plan that is as fast.

    ``uniform`` and ``planned`` are drops.
    """

    label: str
    numerics: str
    latency_ms: float
    uniform: float
    planned: float


@dataclass(frozen=True)
class Pareto:
    """Rows for each candidate and numerics, and points (ms, drop) of a curve of plans."""

    rows: tuple[Row, ...]
    curve: tuple[tuple[float, float], ...]
    plan: tuple[float, float]

    def __str__(self) -> str:
        head = f"{'one level everywhere':<44} {'ms':>8} {'its drop':>9} {'a plan':>9}"
        return "\n".join([head, *(_line(row) for row in self.rows)])

    def to_json(self) -> list[dict[str, object]]:
        """Return plain values, one mapping a row."""
        return [dict(vars(row)) for row in self.rows]

    def svg(self) -> str:
        """Return the picture: drop over milliseconds, plans as a line, single levels as dots."""
        dots = [(row.latency_ms, row.uniform) for row in self.rows]
        right = 1.05 * max(x for x, _ in [*dots, *self.curve])
        top = 1.05 * max([y for _, y in [*dots, *self.curve]] + [1e-6])

        def place(point: tuple[float, float]) -> str:
            x = MARGIN + (WIDTH - 2 * MARGIN) * point[0] / right
            return f"{x:.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * point[1] / top:.1f}"

        def circle(point: tuple[float, float], look: str, title: str) -> str:
            x, y = place(point).split(",")
            return f'<circle cx="{x}" cy="{y}" {look}><title>{escape(title)}</title></circle>'

        line = " ".join(place(point) for point in self.curve)
        titles = [f"{row.label}, {row.numerics}" for row in self.rows]
        marks = [
            circle(dot, 'r="4" fill="#c44e52"', title)
            for dot, title in zip(dots, titles, strict=True)
        ]
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            *_axes(right, top),
            f'<polyline points="{line}" fill="none" stroke="#4c72b0" stroke-width="2"/>',
            *marks,
            circle(self.plan, 'r="6" fill="#4c72b0"', "this plan"),
            f'<text x="{WIDTH - MARGIN}" y="20" text-anchor="end">line: plans; dots: one level'
            " everywhere</text>",
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the picture, an SVG file."""
        try:
            Path(path).write_text(self.svg(), encoding="utf-8")
        except OSError as error:
            raise InputError(str(path), f"cannot be written ({error.strerror})") from error
        return Path(path)


def pareto(tables: Tables, plan: tuple[float, float]) -> Pareto:
    """Return plans at the times of networks with one candidate everywhere.

    ``plan`` is the one to mark, as (ms, drop).
    """
    rows = [
        Row(point.label, name, us / 1e3, drop, _planned(tables, us, drop))
        for name in tables.costs
        for point, us, drop in _uniform(tables, name)
    ]
    slowest = max(row.latency_ms for row in rows) * 1e3
    fastest = min(row.latency_ms for row in rows) * 1e3
    budgets = [fastest + (slowest - fastest) * i / 40 for i in range(41)]
    curve = [(us / 1e3, _planned(tables, us, math.inf)) for us in budgets]
    drawn = tuple(point for point in curve if math.isfinite(point[1]))
    return Pareto(tuple(rows), drawn, plan)


def _uniform(tables: Tables, name: str) -> Sequence[tuple[Point, float, float]]:
    costs = tables.costs[name]
    found = []
    for point in tables.uniform:
        choice = [tables.candidates.index(point.label)] * len(tables.layers)
        found.append((point, costs.whole_us(choice), min(1.0, costs.drop + point.drop)))
    return found


def _planned(tables: Tables, us: float, otherwise: float) -> float:
    """Return the drop of the plan that takes ``us``."""
    try:
        name, choice = solved(tables, Budget("speedup", tables.dense_us / (us * (1 + 1e-6))))
    except InputError:
        return otherwise
    return min(1.0, tables.costs[name].drop + tables.drop_of(choice))


def _line(row: Row) -> str:
    label = f"{row.label}, {row.numerics}"
    return f"{label:<44} {row.latency_ms:8.3f} {row.uniform:9.4f} {row.planned:9.4f}"


def _axes(right: float, top: float) -> list[str]:
    """Return two axes with four numbers each."""
    low, high = HEIGHT - MARGIN, MARGIN
    lines = [
        f'<path d="M{MARGIN},{high} V{low} H{WIDTH - MARGIN}" fill="none" stroke="#444"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 16}" text-anchor="middle">milliseconds</text>',
        f'<text x="{MARGIN}" y="{high - 12}" text-anchor="middle">drop</text>',
    ]
    for i in range(5):
        x = MARGIN + (WIDTH - 2 * MARGIN) * i / 4
        y = low - (low - high) * i / 4
        lines.append(
            f'<text x="{x:.0f}" y="{low + 18}" text-anchor="middle">{right * i / 4:.3g}</text>'
        )
        lines.append(
            f'<text x="{MARGIN - 6}" y="{y:.0f}" text-anchor="end">{top * i / 4:.2g}</text>'
        )
    return lines
