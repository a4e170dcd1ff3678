import numpy as np
import pytest
import torch
from torch import nn

from tvm_sparse.demo.training import Split, accuracy, predict, train


@pytest.fixture
def stripes():
    """Two classes: bright left half, bright right half."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 120)
    images = rng.random((120, 1, 4, 4)).astype(np.float32)
    images[labels == 0, :, :, :2] += 1
    images[labels == 1, :, :, 2:] += 1
    return Split(images[:80], labels[:80], images[80:], labels[80:])


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))


def test_training_learns_and_is_repeatable(stripes):
    seen = []
    first = train(model(), stripes, 5, progress=lambda *told: seen.append(told), what="w")
    second = train(model(), stripes, 5)
    other = train(model(), stripes, 5, seed=1)
    assert accuracy(first, stripes) == 1.0
    assert seen == [("w", epoch, 5) for epoch in range(1, 6)]
    assert torch.equal(first[1].weight, second[1].weight)
    assert not torch.equal(first[1].weight, other[1].weight)
    assert not first.training


def test_after_backward_sees_gradients(stripes):
    network, sums = model(), []
    train(
        network, stripes, 1, after_backward=lambda: sums.append(network[1].weight.grad.abs().sum())
    )
    assert len(sums) == 2
    assert all(total > 0 for total in sums)


@pytest.mark.parametrize("batch", [None, 1, 7, 40, 64])
def test_predict_in_batches_of_one_size(stripes, batch):
    network, sizes = train(model(), stripes, 1), []

    def library(images):
        sizes.append(len(images))
        return torch.from_numpy(predict(network, images))

    logits = predict(library, stripes.test_images, batch)
    np.testing.assert_allclose(logits, predict(network, stripes.test_images), atol=1e-6)
    assert set(sizes) == {batch or 40}


def test_threads_are_put_back_even_after_an_error(stripes):
    before = torch.get_num_threads()
    seen = []

    def fail(*_):
        seen.append(torch.get_num_threads())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model(), stripes, 1, progress=fail)
    assert seen == [1]
    assert torch.get_num_threads() == before


def test_predicting_leaves_the_mode_alone(stripes):
    network = model().train()
    predict(network, stripes.test_images)
    assert network.training
