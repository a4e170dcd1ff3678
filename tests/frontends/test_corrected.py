"""Converters: PyTorch's values, precision and types, or an error that names the layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from tvm import relax

from tests.frontends import operators
from tests.frontends.running import wrong_outputs
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.converters import corrected as converters
from tvm_sparse.frontends.converters.operators import CONVERTERS
from tvm_sparse.frontends.program.exported import from_exported

GROUPS = {
    "unary": (operators.UNARY, (2, 5, 5)),
    "shapes": (operators.SHAPES, (2, 5, 5)),
    "reductions": (operators.REDUCTIONS, (2, 5, 5)),
    "arithmetic": (operators.ARITHMETIC, (2, 5, 5)),
    "planes": (operators.PLANES, (2, 4, 8, 8)),
}


@pytest.mark.grid
@pytest.mark.parametrize("group", GROUPS)
def test_values_are_those_of_pytorch(group):
    uses, shape = GROUPS[group]
    module, x = operators.Uses(uses), torch.randn(shape)
    model = from_exported(torch.export.export(module, (x,)))
    assert wrong_outputs(model, module, x) == []


def test_a_conversion_to_another_shape_is_refused(monkeypatch):
    def cut(importer, node):
        return importer.block_builder.emit(relax.op.flatten(importer.env[node.args[0]]))

    monkeypatch.setitem(CONVERTERS, "relu.default", cut)
    program = torch.export.export(nn.Sequential(nn.Tanh(), nn.ReLU()), (torch.randn(2, 4),))
    with pytest.raises(InputError, match=r"layer '1': .*relu.* was converted to"):
        from_exported(program)


def test_the_open_axes_of_an_operator_without_converter_are_named(monkeypatch):
    def closed(importer, node):
        return int(importer.env[node.args[0]].ty.shape[1])

    monkeypatch.setitem(CONVERTERS, "relu.default", closed)
    shapes = ({1: torch.export.Dim("n")},)
    program = torch.export.export(nn.ReLU(), (torch.randn(2, 4),), dynamic_shapes=shapes)
    told = r"relu.* cannot be imported with axis 1 of float32\[2, \?\] open; expected one size"
    with pytest.raises(InputError, match=told):
        from_exported(program)


def test_extents():
    from tvm import tirx

    symbol = tirx.Var("n", "int64")
    assert converters._may_equal(tirx.IntImm("int64", 3), 3)
    assert not converters._may_equal(tirx.IntImm("int64", 3), 4)
    assert converters._may_equal(symbol, 4)
