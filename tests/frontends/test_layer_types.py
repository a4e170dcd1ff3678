"""Names of layers and kinds, where names are all there is."""

from __future__ import annotations

import pytest
from torch import nn

from tvm_sparse.frontends.modules.layer_types import matrix_type


@pytest.mark.parametrize(
    ("module", "cell"),
    [
        (nn.LSTM(6, 8, 2, bidirectional=True), "lstm"),
        (nn.LSTM(6, 8, proj_size=3), "lstm"),
        (nn.GRU(6, 8), "gru"),
        (nn.RNN(6, 8), "rnn"),
        (nn.LSTMCell(6, 8), "lstm"),
    ],
)
def test_recurrent_weights_tell_their_cell_by_their_shape(module, cell):
    shapes = {f"net.{name}": tuple(p.shape) for name, p in module.named_parameters()}
    kinds = {matrix_type(name, shapes) for name, shape in shapes.items() if len(shape) == 2}
    assert kinds - {"lstm projection"} == {f"{cell} input gates", f"{cell} hidden gates"}


def test_other_matrices():
    assert matrix_type("fc.weight", {}) == "linear"
    assert matrix_type("blocks.0.attn.qkv.weight", {}) == "attention projection"
