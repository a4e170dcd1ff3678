import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.deprune.diagonal import (
    from_diagonal,
    imbalance,
    kept_vectors,
    to_diagonal,
)


def test_diagonal_by_hand():
    weight = np.array([[1, 2], [3, 4], [5, 6]])
    first, short = to_diagonal(weight, group=2)
    assert first.tolist() == [[1, 2, 0, 0], [0, 0, 3, 4]]
    assert short.tolist() == [[5, 6]]


@given(st.integers(1, 70), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 4, 32]))
def test_inverse(channels, height, width, group):
    rng = np.random.default_rng(channels)
    weight = rng.normal(size=(channels, 1, height, width)).astype(np.float32)
    matrices = to_diagonal(weight, group)
    assert np.array_equal(from_diagonal(matrices, weight.shape), weight)
    assert len(matrices) == -(-channels // group)


def test_a_nonzero_off_the_diagonal_is_refused():
    matrices = to_diagonal(np.ones((2, 3)))
    matrices[0][0, 5] = 1
    with pytest.raises(InputError, match="sub-GEMM 0: a nonzero off the diagonal"):
        from_diagonal(matrices, (2, 3))


@pytest.mark.parametrize(("channels", "size", "stride"), [(40, 3, 1), (33, 5, 2), (8, 3, 1)])
def test_sub_gemms_compute_the_convolution_without_pruned_columns(channels, size, stride):
    rng = np.random.default_rng(0)
    weight = rng.integers(-3, 4, (channels, 1, size, size)).astype(np.float32)
    x = rng.integers(-3, 4, (1, channels, 9, 9)).astype(np.float32)
    mask = rng.random(weight.shape) < 0.4
    weight = weight * mask
    expected = F.conv2d(
        torch.from_numpy(x), torch.from_numpy(weight), stride=stride, padding=1, groups=channels
    )
    patches = F.unfold(torch.from_numpy(x), size, stride=stride, padding=1)[0].numpy()
    rows = []
    for number, matrix in enumerate(to_diagonal(weight)):
        start = 32 * number * size * size
        part = patches[start : start + matrix.shape[1]]
        kept = matrix.any(axis=0)
        rows.append(matrix[:, kept] @ part[kept])
    assert np.array_equal(np.concatenate(rows), expected[0].reshape(channels, -1).numpy())
    counts = [int(m.any(axis=0).sum()) for m in to_diagonal(weight)]
    assert counts == kept_vectors(weight != 0)


def test_kept_vectors_and_imbalance():
    mask = np.ones((64, 9), bool)
    mask[:32] = False
    mask[0, 0] = True
    assert kept_vectors(mask) == [1, 288]
    assert imbalance(mask) == pytest.approx(287 / 576)
    assert imbalance(np.ones((64, 9), bool)) == 0
