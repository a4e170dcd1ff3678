"""What is measured: designs on a weight of 8192 x 8192, each count of rows in its best shape.

The shapes are those of 220 that were fastest on an H200, or within 6 % of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.gpu.cases import SIZE
from benchmarks.gpu.hopper.design import LEFT_OUT, Design, Shape

BLOCKS_64 = {
    1: Shape(1, 8, 10, 2, 2),
    16: Shape(1, 16, 10, 1, 2),
    32: Shape(1, 32, 8, 1, 2),
    64: Shape(1, 64, 6, 1, 2),
    256: Shape(1, 64, 6, 1, 2),
    1024: Shape(1, 128, 4, 1, 2),
    4096: Shape(1, 256, 5, 1, 1),
}
BLOCKS_128 = {
    1: Shape(2, 8, 6, 2, 2),
    16: Shape(2, 16, 6, 2, 2),
    64: Shape(2, 64, 4, 2, 2),
    256: Shape(2, 128, 3, 1, 2),
    4096: Shape(2, 256, 4, 1, 1),
}
PAIRS = {
    16: Shape(1, 16, 6, 2, 4),
    32: Shape(1, 32, 6, 2, 4),
    64: Shape(2, 64, 8, 2, 1),
    128: Shape(2, 128, 8, 2, 1),
}
SCATTER = {
    16: Shape(2, 16, 6, 2, 1),
    32: Shape(2, 32, 6, 2, 1),
    64: Shape(2, 64, 6, 2, 1),
    128: Shape(2, 128, 6, 2, 1),
}
DENSE = {
    1: Shape(2, 8, 10, 2, 1),
    16: Shape(2, 16, 6, 2, 1),
    32: Shape(2, 32, 8, 2, 1),
    64: Shape(2, 64, 8, 2, 1),
    256: Shape(2, 128, 6, 1, 1),
    1024: Shape(2, 256, 4, 1, 1),
    4096: Shape(2, 256, 4, 1, 1),
}
TWO_FOUR = {
    16: Shape(2, 16, 8, 2, 1),
    64: Shape(2, 64, 6, 2, 1),
    256: Shape(2, 128, 4, 1, 1),
}

ABLATED = 32
"""Rows of activations at which parts of a kernel are left out, to learn what binds."""

KEPT = {0.75: 8, 0.9: 3, 0.95: 2}
"""Share of zeros -> what is kept of 32 columns, as pruning rounds it."""


@dataclass(frozen=True)
class Point:
    """A design on a weight whose ``pattern`` has a share of zeros, and ``rows`` of activations."""

    design: Design
    pattern: str
    sparsity: float
    rows: int
    shape: Shape

    @property
    def weight(self) -> str:
        """What the weight is, without its rows."""
        return f"{self.pattern} {self.sparsity:.0%}" if self.sparsity else "none"

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is left out in its kernels: nothing first, and what its design can do without."""
        if self.rows != ABLATED:
            return LEFT_OUT[:1]
        decodes = self.design.name in ("pairs", "scatter")
        return LEFT_OUT if decodes else (LEFT_OUT[0], *LEFT_OUT[2:])

    @property
    def name(self) -> str:
        """Name of the point, as the benchmark's grid names its cases."""
        keep = f" {self.design.keep} of 32" if self.design.keep else ""
        case = f"{SIZE}x{SIZE}, float16, N={self.rows}, {self.weight}"
        return f"{case}, by hand: {self.design.name}{keep}"


def points() -> Iterator[Point]:
    """Yield all points, those first of which most is expected."""
    tiles, quads = Design("tiles"), Design("two_four")
    for sparsity in (0.9, 0.75, 0.95):
        for pattern, shapes in (("block 64x64", BLOCKS_64), ("block 128x64", BLOCKS_128)):
            yield from _of(tiles, pattern, sparsity, shapes)
    for sparsity, keep in KEPT.items():
        yield from _of(Design("pairs", keep), "balanced", sparsity, PAIRS)
        if keep > 2:
            yield from _of(Design("scatter", keep), "balanced", sparsity, SCATTER)
    yield from _of(quads, "2:4", 0.5, TWO_FOUR)
    yield from _of(tiles, "none", 0.0, DENSE)


def kernels() -> dict[tuple[Design, Shape, str], None]:
    """Return each kernel of the points once, in their order, and what is left out in it."""
    return dict.fromkeys(
        (point.design, point.shape, name) for point in points() for name in point.left_out
    )


def _of(design: Design, pattern: str, sparsity: float, shapes: dict[int, Shape]) -> Iterator[Point]:
    for rows, shape in shapes.items():
        yield Point(design, pattern, sparsity, rows, shape)
