"""Pictures of fractals: of the size and range that is asked for, the same for the same seed."""

import pytest
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import fractal_pictures, one_shot
from tvm_sparse.pruning.methods.balanced import BalancedPruning


@pytest.mark.parametrize("size", [1, 7, 64, (16, 48)])
def test_pictures_have_the_size_and_range(size):
    found = fractal_pictures(3, size)
    height, width = size if isinstance(size, tuple) else (size, size)
    assert found.shape == (3, 3, height, width) and found.dtype == torch.float32
    assert found.isfinite().all() and found.min() >= 0 and found.max() <= 1


def test_a_seed_gives_its_pictures():
    first = fractal_pictures(2, 32, seed=1)
    assert torch.equal(first, fractal_pictures(2, 32, seed=1))
    assert not torch.equal(first, fractal_pictures(2, 32, seed=2))


def test_pictures_differ_and_have_edges():
    found = fractal_pictures(8, 64)
    flat = found.flatten(1)
    assert torch.pdist(flat).min() > 1
    steps = (found[..., 1:] - found[..., :-1]).abs()
    assert (steps.flatten(1).max(1).values > 0.2).all()


@pytest.mark.parametrize(("count", "size"), [(0, 8), (1, 0), (1, (8, -1))])
def test_nothing_is_no_picture(count, size):
    with pytest.raises(InputError, match="1 and more"):
        fractal_pictures(count, size)


def test_one_shot_reads_them():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
    one_shot(model, fractal_pictures(4, 16).split(2), BalancedPruning(0.5)).squash_mask()
    assert (model[2].weight == 0).float().mean() == 0.5
