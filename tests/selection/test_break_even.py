import itertools

import pytest

from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.selection.break_even import LEVELS, Point, Studied, break_even, curve

CPU = parse_target("cpu:znver4").target
LINEAR = Contraction((64,), 256, 512)
CONVOLUTION = Contraction((1, 14, 14), 64, 64, (3, 3), (1, 1), (1, 1), (16, 16))
DEPTHWISE = Contraction((1, 14, 14), 64, 64, (3, 3), (1, 1), (1, 1), (16, 16), depthwise=True)


def points(*costs):
    return [Point(0.2 * i, cost, "balanced") for i, cost in enumerate(costs, start=1)]


@pytest.mark.parametrize(
    ("costs", "zeros"),
    [((1.5, 0.5), 0.3), ((0.9, 0.5), 0.2), ((2.0, 1.5), None), ((), None), ((0.9, 1.1, 0.9), 0.5)],
)
def test_zeros_from_which_on_the_model_is_below_one(costs, zeros):
    assert break_even(points(*costs)) == (None if zeros is None else pytest.approx(zeros))


@pytest.mark.parametrize(
    ("contraction", "pattern", "order"),
    [
        (LINEAR, Balanced(16, 4), "ihw"),
        (LINEAR, Block(16, 1), "ihw"),
        (CONVOLUTION, Balanced(16, 4), "hwi"),
        (CONVOLUTION, Block(16, 4), "hwi"),
    ],
)
def test_more_zeros_cost_less(contraction, pattern, order):
    found = curve(Studied(contraction, pattern, order), CPU)
    assert len(found) == len(LEVELS)
    for point, level in zip(found, LEVELS, strict=True):
        assert point.sparsity == pytest.approx(level, abs=0.04)
        assert point.format == pattern.kind
    assert all(a.cost > b.cost for a, b in itertools.pairwise(found))
    assert 0 < found[-1].cost < 0.5


def test_the_dense_way_is_the_best_one():
    """Winograd's products halve the dense time of a 3x3 convolution, so zeros have more to gain."""
    zeros = [
        break_even(curve(Studied(c, Balanced(16, 4), "hwi"), CPU)) for c in (LINEAR, CONVOLUTION)
    ]
    assert zeros[0] < zeros[1]


def test_levels_that_a_pattern_refuses_are_left_out():
    found = curve(Studied(DEPTHWISE, DepthwiseTaps(4), "ihw"), CPU, (0.5, 1.5, 0.75))
    assert [p.sparsity for p in found] == [0.5, 0.75]
