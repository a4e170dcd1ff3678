import numpy as np
import torch

from tvm_sparse.demo import digits


def test_real_digits_split_by_class():
    data = digits.load()
    assert data.train_images.shape == (1437, 1, 8, 8)
    assert data.test_images.shape == (360, 1, 8, 8)
    assert data.train_images.dtype == np.float32
    assert data.train_labels.dtype == np.int64
    assert (data.train_images.min(), data.train_images.max()) == (0, 1)
    counts = np.bincount(data.test_labels)
    assert counts.min() >= 34
    assert counts.max() <= 37
    train = {image.tobytes() for image in data.train_images}
    assert sum(image.tobytes() in train for image in data.test_images) == 0


def test_the_split_depends_on_the_seed():
    same, other = digits.load(), digits.load(seed=1)
    assert np.array_equal(digits.load().test_images, same.test_images)
    assert not np.array_equal(other.test_images, same.test_images)


def test_the_model_depends_on_its_seed_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second, other = (digits.build_model(seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.head[1].weight, second.head[1].weight)
    assert not torch.equal(first.head[1].weight, other.head[1].weight)
    assert first(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_channels_suit_banks_of_16():
    convolutions = [m for m in digits.build_model().features if isinstance(m, torch.nn.Conv2d)]
    assert [m.in_channels % 16 for m in convolutions[1:]] == [0, 0, 0]
