import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.pruning.structure import operations


class Forward(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def operation_of_last(model):
    modules = dict(model.named_modules())
    nodes = list(operations.trace(model).nodes)
    return operations.operation_of(nodes[-2], modules)


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (F.relu, operations.KEEPS_ZERO),
        (F.silu, operations.KEEPS_ZERO),
        (torch.tanh, operations.KEEPS_ZERO),
        (lambda x: x.sigmoid(), operations.MOVES_ZERO),
        (lambda x: x.mean((2, 3)), operations.POOL),
        (lambda x: x + x, operations.ADD),
        (lambda x: torch.flatten(x, 1), operations.FLATTEN),
        (lambda x: x.reshape(x.size(0), -1), operations.FLATTEN),
        (lambda x: x.reshape(2, 3, -1), operations.OTHER),
        (lambda x: F.pad(x, (1, 1)), operations.KEEPS_ZERO),
        (lambda x: F.pad(x, (1, 1), value=1.0), operations.MOVES_ZERO),
        (lambda x: x.permute(0, 2, 3, 1), operations.OTHER),
    ],
)
def test_functions(function, operation):
    assert operation_of_last(Forward(function)) == operation


@pytest.mark.parametrize(
    ("module", "operation"),
    [
        (nn.Hardswish(), operations.KEEPS_ZERO),
        (nn.Hardsigmoid(), operations.MOVES_ZERO),
        (nn.BatchNorm2d(4), operations.NORM),
        (nn.LayerNorm(4), operations.OTHER),
        (nn.Hardtanh(0.5, 1.0), operations.OTHER),
        (nn.Conv2d(4, 4, 1), "conv"),
    ],
)
def test_modules(module, operation):
    assert operation_of_last(nn.Sequential(module)) == operation


def test_control_flow_on_data_cannot_be_traced():
    model = Forward(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(UnsupportedError, match=r"Forward: its structure cannot be traced"):
        operations.trace(model)


@pytest.mark.parametrize(
    "module", [nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Mish(), nn.ELU(), nn.Tanh(), nn.Hardswish()]
)
def test_what_is_said_to_keep_zeros_does(module):
    assert operation_of_last(nn.Sequential(module)) == operations.KEEPS_ZERO
    assert module(torch.zeros(3)).tolist() == [0, 0, 0]
