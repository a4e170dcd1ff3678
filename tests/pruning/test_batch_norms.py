import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.pruning import reestimate_batch_norms


class Idle(nn.Module):
    """One of its batch norms does not run."""

    def __init__(self):
        super().__init__()
        self.norm, self.idle = nn.BatchNorm2d(3), nn.BatchNorm1d(2)

    def forward(self, x):
        return self.norm(x)


def test_batch_norms_get_the_moments_of_their_inputs():
    x = torch.randn(64, 3, 5, 5) * torch.tensor([1.0, 2, 3])[:, None, None] + 4
    model = Idle().eval()
    assert reestimate_batch_norms(model, x.split(32)) == 1
    parts = torch.stack([part.mean((0, 2, 3)) for part in x.split(32)])
    torch.testing.assert_close(model.norm.running_mean, parts.mean(0))
    torch.testing.assert_close(model.norm.running_var, x.var((0, 2, 3)), rtol=0.05, atol=0)
    assert not model.norm.training and model.norm.momentum == 0.1
    assert model.norm.num_batches_tracked == 0
    assert torch.equal(model.idle.running_mean, torch.zeros(2))


def data(seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(32, 16, 6, 6, generator=generator) for _ in range(3)]


@pytest.fixture
def model():
    """Convolutions whose batch norms know their inputs."""
    torch.manual_seed(0)
    model = nn.Sequential()
    for i in range(4):
        model.append(nn.Conv2d(16 if i == 0 else 32, 32, 3, padding=1))
        model.append(nn.BatchNorm2d(32))
        model.append(nn.ReLU())
    reestimate_batch_norms(model.eval(), data())
    return model


def test_what_magnitudes_took_comes_back(model):
    (x, *_), pruned = data(9), copy.deepcopy(model)
    pruner = ts.prune.balanced(pruned, 0.75)  # masks may be attached
    with torch.no_grad():
        wanted, before = model(x).mean((0, 2, 3)), pruned(x).mean((0, 2, 3))
        assert reestimate_batch_norms(pruned, iter(data())) == 4
        after = pruned(x).mean((0, 2, 3))
    assert (after - wanted).norm() < 0.2 * (before - wanted).norm()
    assert (pruner.squash_mask()[3].weight == 0).float().mean() == 0.75


@pytest.mark.parametrize("calibration", [[], [torch.zeros(2, 16, 6, 6), torch.zeros(2, 5)]])
def test_bad_data_changes_nothing(model, calibration):
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ts.InputError, match="calibration"):
        reestimate_batch_norms(model, calibration)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_a_network_without_batch_norms_stays_as_it_is():
    assert reestimate_batch_norms(nn.Linear(4, 4), [torch.zeros(2, 4)]) == 0
