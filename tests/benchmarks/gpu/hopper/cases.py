"""Small products for each design of the kernels, of integers."""

from dataclasses import dataclass

import torch

from benchmarks.gpu.hopper import weights
from benchmarks.gpu.hopper.design import Design, Shape

COLUMNS = 256
UNITS = 2


@dataclass(frozen=True)
class Case:
    design: Design
    shape: Shape
    rows: int
    zeros: float = 0.0
    columns: int = COLUMNS


CASES = {
    "dense": Case(Design("tiles"), Shape(1, 8, 2), 8),
    "dense, two warpgroups, parts, rows left over": Case(Design("tiles"), Shape(2, 16, 3, 2), 13),
    "blocks, several items a unit": Case(Design("tiles"), Shape(1, 8, 2), 20, zeros=0.5),
    "blocks in parts": Case(Design("tiles"), Shape(1, 8, 3, 2), 1, zeros=0.5),
    "3 pairs of 32": Case(Design("pairs", 3), Shape(1, 8, 2), 8),
    "8 pairs of 32 in parts": Case(Design("pairs", 8), Shape(2, 8, 2, 2), 5),
    "3 scattered of 32": Case(Design("scatter", 3), Shape(1, 8, 2), 20),
    "8 scattered of 32 in parts": Case(Design("scatter", 8), Shape(2, 8, 2, 2), 5),
    "2:4": Case(Design("two_four"), Shape(1, 8, 2), 8, columns=384),
    "2:4 in parts": Case(Design("two_four"), Shape(2, 16, 2, 2), 13, columns=512),
}


def data(case):
    """Return a weight and activations ``[rows, columns]``."""
    generator = torch.Generator().manual_seed(0)
    shape = (2 * case.shape.features, case.columns)
    weight = weights.make(
        *(case.design, case.shape.features, shape, generator), zeros=case.zeros, integers=True
    )
    return weight, torch.randint(-2, 3, (case.rows, case.columns), generator=generator).half()
