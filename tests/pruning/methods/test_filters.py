import copy

import pytest
import torch
from torch import nn

from tests import zoo
from tvm_sparse.errors import InputError
from tvm_sparse.pruning import FilterPruning, filters
from tvm_sparse.pruning.masks import squashed_copy


class Residual(nn.Module):
    """conv -> bn -> relu, added to its input, then a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.stem(x)
        x = x + torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


def test_layers_that_are_added_lose_the_same_filters():
    model = Residual()
    strength = torch.tensor([1.0, 4.0, 3.0, 2.0]).reshape(4, 1, 1, 1)
    model.stem.weight.data = strength * torch.ones(4, 3, 3, 3)
    model.conv.weight.data = torch.ones(4, 4, 3, 3)
    pruner = filters(model, 0.5)
    kept = [False, True, True, False]
    for name in ("stem.weight", "conv.weight"):
        assert pruner.masks[name].flatten(1).any(1).tolist() == kept
    for name in ("conv.weight", "head.weight"):  # they also lose these inputs
        assert pruner.masks[name].transpose(0, 1).flatten(1).any(1).tolist() == kept
    for name in ("stem.bias", "norm.weight", "norm.bias"):
        assert pruner.masks[name].tolist() == kept
    assert "head" in pruner.report.skipped
    assert "reaches the model's output" in pruner.report.skipped["head"]


def test_channels_are_ranked_by_the_weights_that_read_them():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    model[0].weight.data = torch.tensor([[9.0, 9.0, 9.0], [1.0, 1.0, 1.0]])
    model[2].weight.data = torch.tensor([[1.0, 5.0]])
    assert filters(copy.deepcopy(model), 0.5).masks["0.bias"].tolist() == [True, False]
    assert filters(model, 0.5, rank="inputs").masks["0.bias"].tolist() == [False, True]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("norm", "build"),
    [
        ("fpgm", lambda: Residual().eval()),
        ("l1", lambda: zoo.torchvision_model("resnet18", num_classes=10)),
        ("l2", lambda: zoo.torchvision_model("mobilenet_v3_small")),
    ],
)
def test_removed_channels_are_zero_wherever_they_are_read(norm, build):
    model = build()
    pruner = filters(model, 0.3, norm=norm)
    plain = squashed_copy(model).eval()
    # Weights that read removed channels may hold anything if these are exactly zero.
    disturbed = squashed_copy(model).eval()
    modules = dict(disturbed.named_modules())
    touched = 0
    for channels in pruner.selection.sets:
        for layer in channels.columns:
            weight = modules[layer.name].weight
            keep = pruner.masks[channels.rows[0].key].flatten(1).any(1)
            keep = keep.repeat_interleave(weight.shape[1] // len(keep))
            weight.data[:, ~keep] = 1e3
            touched += int((~keep).sum())
    assert touched
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(plain(x), disturbed(x))


def test_tied_sets_need_all_their_layers():
    report = filters(zoo.torchvision_model("resnet18"), 0.3, ignore=["layer1.0.conv2"]).report
    assert report.skipped["conv1"] == "its output is tied to a layer that is left out"
    assert report["layer1.0.conv1"].sparsity == pytest.approx(0.3, abs=0.01)


def test_nothing_to_remove():
    with pytest.raises(InputError, match=r"no channel can be removed.*model's output"):
        filters(nn.Sequential(nn.Linear(4, 4)), 0.5)
    with pytest.raises(InputError):
        FilterPruning(1.5)
