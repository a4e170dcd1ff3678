import pytest
import torch

from benchmarks.harness import common
from benchmarks.papers import deprune_accuracy
from tests import zoo
from tests.benchmarks.test_imagenet import noise, write


@pytest.fixture
def imagenet(tmp_path, monkeypatch):
    for part, count in (("train", 3), ("val", 2)):
        for number, name in enumerate(("n01440764", "n01443537")):
            for index in range(count):
                path = tmp_path / "imagenet" / part / name / f"{index}.JPEG"
                write(path, noise(64, 64, number + 10 * index))
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    (tmp_path / "papers").mkdir()
    return tmp_path / "imagenet"


def test_a_published_network_is_pruned_and_trained_on(imagenet, tmp_path):
    network = zoo.torchvision_model("mobilenet_v3_small", num_classes=2)
    weights = tmp_path / "weights.pth"
    torch.save(network.state_dict(), weights)
    options = ["--data", str(imagenet), "--network", "mobilenet_v3_small"]
    options += ["--weights", str(weights), "--epochs", "1", "--batch", "3"]
    found = deprune_accuracy.main(options)
    assert 0 <= found["accuracy"] <= 1
    assert found["zeros"]["depthwise"] == pytest.approx(0.821, abs=0.01)
    assert found["zeros"]["other"] > 0.3
    files = [path.name for path in (tmp_path / "papers").iterdir()]
    assert files == ["deprune_accuracy_mobilenet_v3_small_DEPrune-B_2_0.json"]


def test_dense_epochs_come_before_pruning(monkeypatch):
    options = deprune_accuracy.arguments(["--data", "x", "--dense", "2"])
    run = deprune_accuracy.prepare(options, 2, 32)
    assert [run.pruner.schedule.due(epoch) for epoch in range(4)] == [None, None, 1.0, None]
