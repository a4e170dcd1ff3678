"""Transpositions around reshapes become one, or none, of a known and of an open batch."""

from __future__ import annotations

import pytest
from tvm import relax, tirx

from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.passes.lower.merge_permutes import MergePermutes

N = tirx.Var("n", "int64")
M = tirx.Var("m", "int64")


def operators(shape, *steps) -> list[str]:
    """Return the operators of a function of these steps behind the pass, the last one first."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for name, argument in steps:
                y = builder.emit(getattr(relax.op, name)(y, argument))
            result = builder.emit_output(y)
        builder.emit_func_output(result)
    function = MergePermutes()(builder.get())["main"]
    bound = {b.var: b.value for b in function.body.blocks[0].bindings}
    value, found = bound[function.body.body], []
    while True:
        while value in bound:
            value = bound[value]
        if not isinstance(value, relax.Call):
            return found
        found.append(op_name(value))
        value = value.args[0]


@pytest.mark.parametrize("batch", [1, 2, N])
def test_tokens_that_become_an_image_of_channels_behind_are_a_reshape(batch):
    found = operators(
        (batch, 576, 64),
        ("permute_dims", [0, 2, 1]),
        ("reshape", (batch, 64, 24, 24)),
        ("permute_dims", [0, 2, 3, 1]),
    )
    assert "permute_dims" not in found


@pytest.mark.parametrize("batch", [2, N])
def test_two_transpositions_become_one(batch):
    found = operators(
        (batch, 20, 32, 48),
        ("permute_dims", [0, 2, 1, 3]),
        ("reshape", (batch, 32, 20, 48)),
        ("permute_dims", [0, 3, 1, 2]),
    )
    assert found.count("permute_dims") == 1


@pytest.mark.parametrize(
    ("shape", "steps"),
    [  # the batch moves, is joined with another axis, or another axis is open
        ((N, 16, 32), [("permute_dims", [1, 0, 2]), ("permute_dims", [0, 2, 1])]),
        (
            (N, 16, 32),
            [("permute_dims", [0, 2, 1]), ("reshape", (N * 32, 16)), ("permute_dims", [1, 0])],
        ),
        (
            (N, M, 32),
            [
                ("permute_dims", [0, 2, 1]),
                ("reshape", (N, 4, 8, M)),
                ("permute_dims", [0, 3, 1, 2]),
            ],
        ),
    ],
)
def test_other_open_extents_stay(shape, steps):
    found = operators(shape, *steps)
    assert found.count("permute_dims") == 2, found
