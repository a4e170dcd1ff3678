import pytest
import torch
from torch import nn

from benchmarks.papers.cifar_networks import NETWORKS
from tvm_sparse.pruning import balanced


@pytest.mark.parametrize(
    ("name", "convolutions", "millions"),
    # 164 layers: 1 + 54 * 3 convolutions and one linear; shortcuts (3) are not counted.
    [("vgg16", 13, 14.77), ("resnet164", 1 + 54 * 3 + 3, 1.73), ("densenet40", 1 + 36 + 2, 1.06)],
)
def test_depth_and_size_as_published(name, convolutions, millions):
    model = NETWORKS[name](100).eval()
    assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == convolutions
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert weights / 1e6 == pytest.approx(millions, abs=0.01)
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 100)


def test_they_can_be_pruned():
    report = balanced(NETWORKS["densenet40"](10), 0.75, bank=4, order="ihw").report
    assert report.sparsity == pytest.approx(0.75, abs=0.01)
