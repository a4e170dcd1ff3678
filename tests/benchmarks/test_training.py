import torch

from benchmarks.papers.training import load
from tests.benchmarks.test_cifar import records
from tests.benchmarks.test_imagenet import noise, write


def same(first, second):
    return all(
        torch.equal(x, a) and torch.equal(y, b)
        for (x, y), (a, b) in zip(first, second, strict=True)
    )


def test_epochs_of_cifar_repeat_but_differ_from_each_other(tmp_path):
    records(10, 2).tofile(tmp_path / "train.bin")
    records(300, 2, 1).tofile(tmp_path / "test.bin")
    data = load(tmp_path, 4)
    assert [len(y) for _, y in data.train(0)] == [4, 4, 2]
    assert [len(y) for _, y in data.test()] == [256, 44]
    assert same(data.train(3), data.train(3))
    assert not same(data.train(3), data.train(4))
    assert data.size == 32


def test_a_train_folder_is_imagenet(tmp_path):
    for part in ("train", "val"):
        for index in range(3):
            write(tmp_path / part / "n01440764" / f"{index}.JPEG", noise(32, 32, index))
    data = load(tmp_path, 2)
    assert (data.classes, data.size) == (1, 224)
    assert [len(y) for _, y in data.train(0)] == [2]  # a batch of one breaks batch norm
    assert [len(y) for _, y in data.test()] == [3]
