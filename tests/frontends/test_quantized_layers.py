"""The layers of modules that torchao's export flow made."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.frontends.modules.quantized_layers import is_quantized


class Several(nn.Module):
    """A convolution in groups, one that is transposed, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(4, 8, 3, groups=2)
        self.attention, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        self.up = nn.ConvTranspose2d(8, 8, 2)

    def forward(self, x):
        x = self.up(self.grouped(x)).mean((2, 3))
        return self.head(torch.relu(self.attention(x)))


@pytest.fixture(scope="module")
def converted():
    quantize = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    torch.manual_seed(0)
    model, x = Several().eval(), torch.randn(1, 4, 8, 8)
    with torch.no_grad():
        model.head.weight[:, ::2] = 0
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = quantize.prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
    prepared(x)
    return model, quantize.convert_pt2e(prepared)


def test_layers_have_names_kinds_and_precisions(converted):
    _, module = converted
    rows = {row.layer: row for row in ts.inspect(module).rows}
    kinds = {name: (row.kind, row.precision) for name, row in rows.items()}
    assert kinds == {
        "grouped": ("grouped conv2d", "int8"),
        "up": ("transposed conv2d", "float"),
        "attention": ("attention projection", "int8"),
        "head": ("linear", "int8"),
    }
    assert {name: row.shape for name, row in rows.items()} == {
        "grouped": (8, 2, 3, 3),
        "up": (8, 8, 2, 2),
        "attention": (16, 8),
        "head": (4, 16),
    }
    assert rows["head"].sparsity == pytest.approx(0.5, abs=0.05)
    assert "(int8)" in str(ts.inspect(module))


def test_an_exported_program_has_the_same_layers(converted):
    _, module = converted
    program = torch.export.export(module, (torch.randn(1, 4, 8, 8),))
    found = {row.precision for row in ts.inspect(program).rows if row.kind != "transposed conv2d"}
    assert found == {"int8"}


def test_modules_of_floats_are_no_such(converted):
    model, module = converted
    assert is_quantized(module)
    assert not is_quantized(model)
    assert not is_quantized(torch.export.export(model, (torch.randn(1, 4, 8, 8),)).module())
    assert {row.precision for row in ts.inspect(model).rows} == {"float"}
