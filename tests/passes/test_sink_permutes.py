"""SinkPermutes: fewer transpositions, the same values."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.sink_permutes import SinkPermutes
from tvm_sparse.passes.graph.rewrite import constant

SHAPE = (2, 5, 3, 4)
BIAS = np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1)


def permute(x, *axes):
    return relax.op.permute_dims(x, axes)


def first(x):
    return permute(x, 0, 3, 1, 2)


def last(x):
    return permute(x, 0, 2, 3, 1)


CHAINS = {
    "cancel": (lambda x: first(last(x)), 0),
    "merge": (lambda x: permute(last(x), 1, 2, 0, 3), 1),
    "through": (lambda x: first(relax.op.nn.relu(last(x))), 0),
    "bias": (lambda x: last(relax.op.add(first(last(x)), constant(BIAS))), 1),
    "row": (lambda x: first(relax.op.multiply(last(x), constant(BIAS.reshape(5)))), 0),
    "number": (lambda x: first(relax.op.multiply(last(x), relax.const(2.0))), 0),
    "both": (lambda x: first(relax.op.add(relax.op.exp(last(x)), last(x))), 0),
    "apart": (lambda x: first(relax.op.add(last(x), permute(x, 0, 2, 3, 1))), 0),
    "other operand": (
        lambda x: relax.op.add(permute(x, 0, 1, 3, 2), relax.op.reshape(x, (2, 5, 4, 3))),
        1,
    ),
    "broadcast": (
        lambda x: relax.op.add(
            permute(relax.op.sum(x, [2, 3], keepdims=True), 0, 3, 2, 1),
            constant(BIAS.reshape(5, 1)),
        ),
        None,
    ),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name):
    assert_sunk(*CHAINS[name])


def assert_sunk(body, count, shape=SHAPE, largest=3):
    before = module(body, shape)
    after = SinkPermutes()(before)
    x = np.random.default_rng(0).integers(-largest, largest + 1, shape).astype(np.float32)
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))
    if count is not None:
        assert operators(after).get("permute_dims", 0) == count


def test_axes_of_extent_one_are_moved_by_a_reshape():
    after = SinkPermutes()(module(lambda x: permute(x, 0, 2, 1, 3), (2, 1, 3, 4)))
    assert operators(after) == {"reshape": 1}


def enlarged(x):
    for axis, extent in ((2, 5), (3, 3)):
        x = relax.op.take(x, constant(np.arange(2 * extent) // 2), axis)
    return x


def enlarged_at_computed_places(x):
    places = relax.op.floor_divide(relax.op.arange(0, 10, 1, "int64"), constant(np.array(2)))
    return relax.op.take(x, places, 2)


JOINS = {
    "enlarged": (lambda x: last(enlarged(first(x))), 0),
    "enlarged at computed places": (lambda x: last(enlarged_at_computed_places(first(x))), 0),
    "bordered": (lambda x: last(relax.op.nn.pad(first(x), [0, 0, 0, 0, 1, 2, 0, 3])), 0),
    "bordered by numbers": (
        lambda x: last(relax.op.nn.pad(first(x), [1, 0, 0, 2, 1, 2, 0, 3], "constant", 2.0)),
        0,
    ),
    "joined": (lambda x: last(relax.op.concat([enlarged(first(x)), enlarged(first(x))], 1)), 0),
    "beside": (
        lambda x: last(relax.op.exp(relax.op.concat([first(x), first(relax.op.exp(x))], 1))),
        0,
    ),
    "at the end": (lambda x: enlarged(first(x)), 1),
    "other axes": (lambda x: relax.op.concat([first(x), permute(x, 0, 3, 1, 2)], -1), 1),
    "one is plain": (
        lambda x: relax.op.concat([first(x), relax.op.reshape(x, (2, 4, 5, 3))], 1),
        1,
    ),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", JOINS)
def test_joins_and_elements_at_known_places(name):
    assert_sunk(*JOINS[name])
