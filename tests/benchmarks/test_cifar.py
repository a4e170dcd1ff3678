import numpy as np
import pytest
import torch

from benchmarks.papers.cifar import DEVIATION, MEAN, augmented, load_cifar
from tvm_sparse.errors import InputError


def records(count, labels, seed=0):
    data = np.random.default_rng(seed).integers(0, 256, (count, labels + 3072), dtype=np.uint8)
    data[:, :labels] %= 10
    return data


def test_cifar_10(tmp_path):
    written = [records(2, 1, seed) for seed in range(6)]
    for number, data in enumerate(written[:5], 1):
        data.tofile(tmp_path / f"data_batch_{number}.bin")
    written[5].tofile(tmp_path / "test_batch.bin")
    found = load_cifar(tmp_path)
    assert found.train_images.shape == (10, 3, 32, 32)
    assert found.test_labels.tolist() == written[5][:, 0].tolist()
    pixel = written[1][0, 1 + 1024 + 33]  # second file, green, row 1, column 1
    expected = (pixel / 255 - MEAN[1, 0, 0]) / DEVIATION[1, 0, 0]
    assert found.train_images[2, 1, 1, 1] == pytest.approx(expected, abs=1e-6)


def test_cifar_100_takes_the_fine_label(tmp_path):
    train, test = records(4, 2), records(3, 2, 1)
    train.tofile(tmp_path / "train.bin")
    test.tofile(tmp_path / "test.bin")
    found = load_cifar(tmp_path)
    assert found.train_labels.tolist() == train[:, 1].tolist()
    assert found.test_images.dtype == np.float32


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(InputError, match=r"holds neither test_batch\.bin nor test\.bin"):
        load_cifar(tmp_path)
    records(3, 2).tofile(tmp_path / "test.bin")
    with pytest.raises(InputError, match=r"train\.bin: cannot be read"):
        load_cifar(tmp_path)
    (tmp_path / "train.bin").write_bytes(b"1234")
    with pytest.raises(InputError, match="has 4 bytes; expected records of 3074 bytes"):
        load_cifar(tmp_path)


def test_augmented_images_are_shifted_and_mirrored_copies():
    images = torch.rand(20, 3, 32, 32) + 1
    found = augmented(images, torch.Generator().manual_seed(0))
    assert found.shape == images.shape
    assert not torch.equal(found, images)
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    mirrored = 0
    for one, whole in zip(found, padded, strict=True):
        windows = {}
        for flip in (False, True):
            view = one.flip(2) if flip else one
            windows[flip] = any(
                torch.equal(view, whole[:, y : y + 32, x : x + 32])
                for y in range(9)
                for x in range(9)
            )
        assert windows[True] != windows[False]
        mirrored += windows[True]
    assert 4 < mirrored < 16
