import json

import pytest
import torch

from benchmarks.harness import common
from benchmarks.papers import joint_accuracy
from benchmarks.papers.training import Run
from tests.benchmarks.test_cifar import records


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    records(70, 2).tofile(folder / "train.bin")
    records(20, 2, 1).tofile(folder / "test.bin")
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(joint_accuracy, "NETWORKS", {"vgg16": _small})
    (tmp_path / "papers").mkdir()
    return folder


def _small(classes):
    """A stand-in of a few layers: the script is under test here, not VGG."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 15 * 15, classes),
    )


def test_an_interrupted_run_ends_like_one_that_was_not(cifar, tmp_path, monkeypatch):
    options = ["--data", str(cifar), "--dense", "1", "--every", "1", "--epochs", "4"]
    through = joint_accuracy.main(options)
    checkpoint = ["--checkpoint", str(tmp_path / "run.pt")]

    trained = []
    train_epoch = Run.train_epoch

    def killed_in_the_third_epoch(run, batches):
        trained.append(run.epoch)
        if len(trained) == 3:
            raise KeyboardInterrupt
        train_epoch(run, batches)

    monkeypatch.setattr(Run, "train_epoch", killed_in_the_third_epoch)
    with pytest.raises(KeyboardInterrupt):
        joint_accuracy.main([*options, *checkpoint])
    resumed = joint_accuracy.main([*options, *checkpoint])
    assert trained == [0, 1, 2, 2, 3]
    assert resumed["sparsity"] == through["sparsity"]
    assert resumed["accuracy"] == through["accuracy"]
    assert 0.6 < resumed["sparsity"] < 0.75
    written = json.loads(
        (tmp_path / "papers" / "joint_accuracy_vgg16_0.7_0.7_4_0.json").read_text()
    )
    assert written["sparsity"] == pytest.approx(resumed["sparsity"], rel=1e-5)
    assert "data" not in written
