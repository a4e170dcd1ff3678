"""Converters: PyTorch's values, precision and types, or an error that names the layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.frontends import operators
from tests.frontends.running import wrong_outputs
from tvm_sparse.errors import InputError
from tvm_sparse.frontends import converters
from tvm_sparse.frontends.exported import from_exported

GROUPS = {
    "unary": (operators.UNARY, (2, 5, 5)),
    "shapes": (operators.SHAPES, (2, 5, 5)),
    "reductions": (operators.REDUCTIONS, (2, 5, 5)),
    "arithmetic": (operators.ARITHMETIC, (2, 5, 5)),
    "planes": (operators.PLANES, (2, 4, 8, 8)),
}


@pytest.mark.parametrize("group", GROUPS)
def test_values_are_those_of_pytorch(group):
    uses, shape = GROUPS[group]
    module, x = operators.Uses(uses), torch.randn(shape)
    model = from_exported(torch.export.export(module, (x,)))
    assert wrong_outputs(model, module, x) == []


def test_a_conversion_to_another_shape_is_refused():
    module = nn.Sequential(nn.ReLU(), operators.Uses({"grid": _sample}))
    program = torch.export.export(module, (torch.randn(2, 4, 8, 8),))
    with pytest.raises(InputError, match=r"layer '1': .*grid_sampler.* was converted to"):
        from_exported(program)


def _sample(x: torch.Tensor) -> torch.Tensor:
    grid = torch.linspace(-1, 1, 2 * 4 * 4 * 2).view(2, 4, 4, 2)
    return nn.functional.grid_sample(x, grid, align_corners=False)


def test_extents():
    from tvm import tirx

    symbol = tirx.Var("n", "int64")
    assert converters._may_equal(tirx.IntImm("int64", 3), 3)
    assert not converters._may_equal(tirx.IntImm("int64", 3), 4)
    assert converters._may_equal(symbol, 4)
