import pytest
import torch

from benchmarks.cases.networks import prune_balanced
from benchmarks.gpu import models
from benchmarks.gpu.timing import Timer


def test_a_network_that_overflows_by_itself_is_named():
    """Its outputs would "differ by nan" from ours, which may be right."""
    model = torch.nn.Linear(4, 4).half()
    torch.nn.init.constant_(model.weight, 6e4)
    with pytest.raises(ArithmeticError, match=r"PyTorch itself computes is not finite in .*16"):
        models._measured("wide", model, torch.ones(2, 4).half(), Timer(1), "")


def test_pruning_keeps_the_norm_of_a_weight():
    """Else activations of ResNet-50 grow by a third in each layer, past the end of fp16."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 32)
    before = model.weight.detach().norm()
    prune_balanced(model, keep=4)
    assert float((model.weight != 0).float().mean()) == 0.25
    torch.testing.assert_close(model.weight.detach().norm(), before)
