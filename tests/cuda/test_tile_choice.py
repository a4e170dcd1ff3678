"""Which tile a thread block takes."""

from __future__ import annotations

import pytest

from tvm_sparse.ops.cuda.mends import Mends, using
from tvm_sparse.selection.cuda.tile_choice import choose_step

STEPS = [
    *((976, 64, 16), (8196, 64, 48), (784, 64, 16), (1000, 64, 48), (64, 64, 64), (147, 32, 32)),
    *((144, 48, 48), (100, 16, 16), (67, 16, 16), (27, 32, 32), (9, 16, 16), (1, 16, 16)),
]


@pytest.mark.parametrize(("columns", "step", "least"), STEPS)
def test_long_steps_unless_their_padding_is_long(columns, step, least):
    assert choose_step(columns) == step
    with using(Mends(step_padding=0.0)):
        assert choose_step(columns) == least
