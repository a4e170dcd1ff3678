"""The description of a contraction and its naive reference."""

from __future__ import annotations

import numpy as np
import torch

from tests.kernels import integers
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.patterns.lowering import lower


def test_linear_reference_is_a_matrix_product():
    rng = np.random.default_rng(0)
    contraction = Contraction((2, 3), 5, 7)
    x, matrix = integers(rng, (2, 3, 5)), integers(rng, (7, 5))
    assert (reference(contraction, x, matrix) == x @ matrix.T).all()
    assert contraction.output_shape == (2, 3, 7)
    assert contraction.flops() == 2 * 6 * 35


def test_convolution_reference_is_torchs():
    rng = np.random.default_rng(0)
    weight = integers(rng, (6, 4, 3, 2))
    padded = integers(rng, (2, 9, 11, 4))
    contraction = Contraction((2, 4, 8), 4, 6, (3, 2), (2, 1), (1, 3), (9, 11))
    expected = torch.nn.functional.conv2d(
        torch.from_numpy(padded).permute(0, 3, 1, 2),
        torch.from_numpy(weight),
        stride=(2, 1),
        dilation=(1, 3),
    )
    result = reference(contraction, padded, lower(weight, "hwi"))
    assert (result == expected.permute(0, 2, 3, 1).numpy()).all()
    assert contraction.input_shape == padded.shape


def test_reference_of_groups_is_torchs():
    rng = np.random.default_rng(0)
    weight = integers(rng, (32, 4, 3, 2))
    padded = integers(rng, (2, 9, 11, 8))
    contraction = Contraction((2, 7, 10), 4, 32, (3, 2), (1, 1), (1, 1), (9, 11), groups=2)
    x = torch.from_numpy(padded).permute(0, 3, 1, 2)
    expected = torch.nn.functional.conv2d(x, torch.from_numpy(weight), groups=2)
    result = reference(contraction, padded, lower(weight, "hwi"))
    assert (result == expected.permute(0, 2, 3, 1).numpy()).all()
    assert contraction.input_shape == padded.shape
    assert [contraction.group_start(f) for f in (0, 15, 16, 31)] == [0, 0, 4, 4]
