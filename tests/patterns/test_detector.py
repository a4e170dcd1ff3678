"""The detector: every kind from the weights alone, ranked by cost, and never by chance."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tests.matrices import DTYPES
from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Evidence, Fit, Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.cost import modelled
from tvm_sparse.patterns.dense import Dense
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.patterns.detector import detect
from tvm_sparse.patterns.filters import FilterPruned
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.lowering import lower, raise_
from tvm_sparse.patterns.unstructured import Unstructured
from tvm_sparse.registry import Kind, register, unregister


def pruned(pattern, shape, sparsity=None, order="ihw", dtype="float32"):
    scores = lower(np.random.default_rng(0).random(shape) + 0.1, order)
    mask = pattern.project(scores, sparsity)
    return raise_(scores * mask, shape, order).astype(DTYPES[dtype])


CASES = {
    "balanced": (Balanced(16, 4), (128, 256), None),
    "2:4": (Balanced(4, 2), (128, 256), None),
    "block": (Block(16, 16), (256, 512), 0.8),
    "one row": (Block(1, 8), (128, 256), 0.8),
    "joint": (Joint(Balanced(16, 4), Block(16, 16)), (256, 512), 0.85),
    "filters": (FilterPruned(89, 256), (128, 256), 0.3),
    "unstructured": (Unstructured(), (128, 256), 0.8),
    "dense": (Dense(), (128, 256), None),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_every_kind(case, dtype):
    pattern, shape, sparsity = CASES[case]
    weight = pruned(pattern, shape, sparsity, dtype=dtype)
    found = detect(weight)
    expected = FilterPruned(int(weight.any(1).sum()), 256) if case == "filters" else pattern
    assert found.best.pattern == expected
    assert found.best.evidence.exact
    assert found.near_misses == ()
    assert found.sparsity == pytest.approx((weight == 0).mean())
    assert found.shape == shape


@pytest.mark.parametrize("order", ["ihw", "hwi"])
@pytest.mark.parametrize("shape", [(64, 64, 3, 3), (64, 96, 5), (32, 32, 3, 3, 2)])
def test_both_column_orders_of_convolutions(order, shape):
    found = detect(pruned(Balanced(16, 4), shape, order=order))
    assert found.best.pattern == Balanced(16, 4)
    assert found.best.order == order


def test_removed_inputs_of_a_convolution():
    weight = np.ones((32, 16, 3, 3))
    weight[:, ::2] = 0
    assert detect(weight).best.pattern == FilterPruned(32, 8, 9)


@pytest.mark.parametrize("shape", [(64, 64, 1, 1), (64, 1, 3, 3)])
def test_orders_that_do_not_differ_are_not_tried_twice(shape):
    weight = pruned(Balanced(4, 2), shape)
    assert {fit.order for fit in detect(weight).candidates} == {"ihw"}


def test_depthwise():
    weight = pruned(DepthwiseTaps(32), (960, 1, 3, 3), 0.78)
    found = detect(weight, depthwise=True)
    assert found.best.pattern == DepthwiseTaps(32, keep=63)
    assert [fit.pattern.kind for fit in found.candidates] == ["depthwise_taps"]
    assert detect(np.ones((32, 1, 3, 3)), depthwise=True).best.pattern == Dense()
    gone = np.ones((32, 1, 3, 3))
    gone[3:9] = 0
    assert detect(gone, depthwise=True).best.pattern == FilterPruned(26, 9)


def test_zeros_only():
    assert detect(np.zeros((8, 8))).best.pattern == FilterPruned(0, 0)


def test_the_cheapest_true_explanation_is_best():
    found = detect(pruned(Balanced(16, 4), (128, 512)))
    patterns = [fit.pattern for fit in found.candidates]
    assert patterns[0] == Balanced(16, 4)
    assert {Balanced(32, 8), Balanced(64, 16), Unstructured()} < set(patterns)
    costs = [f.cost.relative for f in found.candidates if f.pattern != Unstructured()]
    assert costs == sorted(costs)


def test_a_near_miss_may_be_best():
    weight = pruned(Balanced(16, 4), (1024, 1024))
    weight[17, 48:64] = np.where(np.arange(16) < 5, 1, 0)
    found = detect(weight)
    assert found.best.pattern == Balanced(16, 4)
    assert found.best is found.near_misses[0]
    assert found.best.evidence.first_violation == "row 17, bank 3"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place(bad):
    weight = np.zeros((8, 4, 3, 3), np.float32)
    weight[5, 2, 1, 0] = bad
    with pytest.raises(InputError, match=rf"conv1\.weight: {bad} at \(5, 2, 1, 0\)"):
        detect(weight, name="conv1.weight")


@pytest.mark.parametrize("shape", [(4,), (2, 2, 2, 2, 2, 2), (4, 0)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(InputError, match="2 to 5 dimensions"):
        detect(np.zeros(shape))


@pytest.mark.parametrize("shape", [(8, 9), (8, 2, 3, 3)])
def test_depthwise_weights_have_one_input(shape):
    with pytest.raises(InputError, match=r"\(channels, 1, kh, kw\)"):
        detect(np.zeros(shape), depthwise=True)


@dataclass(frozen=True)
class Checkerboard(Pattern):
    """A third party's kind."""

    kind: ClassVar[str] = "checkerboard"

    def project(self, scores, sparsity=None):
        return np.indices(scores.shape).sum(0) % 2 == 0

    @classmethod
    def detect(cls, weight):
        if (weight != 0).tolist() != cls().project(weight).tolist():
            return None
        cost = modelled(weight.size, weight.size / 2, 0, weight.itemsize)
        return Fit(cls(), 0.5, Evidence("matrix", 1, 1), cost=cost)

    def describe(self):
        return "checkerboard"


def test_registered_kinds_are_found():
    weight = np.indices((8, 8)).sum(0) % 2 == 0
    register(Kind("checkerboard", Checkerboard))
    try:
        assert detect(weight).best.pattern == Checkerboard()
    finally:
        unregister("checkerboard")


def random_weight(seed):
    """Return a weight with a random unstructured mask: any density, linear or convolution."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.3:
        shape = (*rng.integers(1, 60, 2), 3, 3)
    else:
        shape = tuple(rng.integers(1, 160, 2))
    scores = rng.random(shape)
    return (
        (scores > rng.random())
        if rng.random() < 0.5
        else scores > np.quantile(scores, rng.random())
    )


def claims(seeds):
    """Return the structured verdicts of random masks."""
    found = {seed: detect(random_weight(seed)).candidates for seed in seeds}
    innocent = ("unstructured", "dense")
    return {
        seed: fit.summary()
        for seed, fits in found.items()
        for fit in fits
        if fit.pattern.kind not in innocent and fit.sparsity < 1
    }


def test_random_masks_have_no_structure():
    assert claims(range(400)) == {}


@pytest.mark.slow
def test_ten_thousand_random_masks_have_no_structure():
    assert claims(range(1000, 11000)) == {}
