"""Quantized networks on GPUs: right, in floats, and said to be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers operators
from typer.testing import CliRunner

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.cli.app import app
from tvm_sparse.errors import WidenedBytesWarning
from tvm_sparse.testing import emulate

TARGET = "cuda:sm_80"


class Quantized(nn.Module):
    """Layers whose inputs and weights are bytes with a step, and a last one of floats."""

    def __init__(self, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(layers))
        self.last = nn.Linear(32, 8)
        for layer in self.layers:
            layer.weight.data = torch.randint(-127, 128, (32, 32)) * 0.0078125

    def forward(self, x):
        q, args = torch.ops.quantized_decomposed, (0.0625, 3, -128, 127, torch.int8)
        for layer in self.layers:
            x = layer(q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args))
        return self.last(x)


def compiled(model, target=TARGET):
    x = torch.randn(4, 32)
    program = torch.export.export(model.eval(), (x,))
    return ts.compile(program, target=target, config=ts.Config(measure=False)), program, x


@needs_nvrtc
def test_they_are_right_and_a_warning_names_the_layers():
    named = r"no product of bytes.* no operators of: layers\.0, layers\.1$"
    with pytest.warns(WidenedBytesWarning, match=named):
        library, program, x = compiled(Quantized())
    emulation = emulate(library, x.numpy())
    assert not emulation.report.findings
    wanted = program.module()(x).detach().numpy()
    np.testing.assert_allclose(emulation.outputs[0], wanted, rtol=1e-5, atol=1e-5)
    reasons = {d.layer: d.reason for d in library.decisions}
    assert "float32, though its input is quantized" in reasons["layers.0"]
    assert "quantized" not in reasons["last"]
    assert "layers.0, layers.1" in library.verdict()


def test_of_many_layers_three_are_named():
    with pytest.warns(WidenedBytesWarning, match=r"layers\.0, layers\.1, layers\.2 and 2 more$"):
        compiled(Quantized(5))


@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
def test_nobody_is_warned_where_bytes_are_multiplied_or_there_are_none():
    library, *_ = compiled(Quantized(), "cpu")
    assert not library.decisions.in_floats
    library, *_ = compiled(Quantized(0))
    assert not library.decisions.in_floats


def test_the_command_line_says_it_once(tmp_path):
    source = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Quantized().eval(), (torch.randn(4, 32),)), source)
    done = CliRunner().invoke(app, ["compile", str(source), "--target", TARGET, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert " ".join(done.output.split()).count("no product of bytes") == 1
