"""What is quantized and multiplies no bytes on a GPU is named, in one message a kind."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from tests.cuda.kernels import needs_nvrtc
from tests.cuda.test_bytes import (
    TARGET,
    Convolutions,
    Linear,
    assert_as_on_cpus,
    compiled,
    rounded,
    whole,
)
from tvm_sparse.cli.app import app
from tvm_sparse.errors import WidenedBytesWarning
from tvm_sparse.testing import emulate


@needs_nvrtc
def test_depthwise_layers_stay_in_floats_and_a_warning_names_them():
    torch.manual_seed(0)
    x, named = torch.randn(1, 3, 9, 9), r"convolutions in groups multiply no bytes.*: body; this "
    with pytest.warns(WidenedBytesWarning, match=named):
        library = compiled(Convolutions(depthwise=True), x)
    reasons = {d.layer: d.reason for d in library.decisions}
    assert "float32, though its input is quantized" in reasons["body"]
    assert "bytes on tensor cores" in reasons["wide"]
    assert "body" in library.verdict()
    emulation = emulate(library, x.numpy())
    assert not emulation.report.findings


class Depthwise(nn.Module):
    """Depthwise layers of bytes alone."""

    def __init__(self, layers):
        super().__init__()
        made = (whole(nn.Conv2d(16, 16, 3, padding=1, groups=16)) for _ in range(layers))
        self.layers = nn.ModuleList(made)

    def forward(self, x):
        """Map ``(batch, 16, rows, columns)`` to the same."""
        for layer in self.layers:
            x = layer(rounded(x))
        return x


def test_of_many_layers_three_are_named():
    with pytest.warns(WidenedBytesWarning, match=r"layers\.0, layers\.1, layers\.2 and 2 more; "):
        compiled(Depthwise(5), torch.randn(1, 16, 6, 6))


class Products(nn.Module):
    """Two products of activations, as attention has them, and depthwise layers before."""

    def __init__(self, layers=0):
        super().__init__()
        self.before = Depthwise(layers)

    def forward(self, x):
        """Map ``(batch, 16, rows, columns)`` to the same."""
        x = self.before(x)
        scores = rounded(x) @ rounded(x, 0).transpose(2, 3)
        return rounded(scores * 0.125) @ rounded(x)


@needs_nvrtc
def test_products_of_activations_stay_in_floats_and_a_warning_says_so():
    torch.manual_seed(0)
    x = torch.randn(2, 16, 5, 7)
    told = r"products of two activations multiply.*: 2x16x5x7 by 2x16x7x5, 2x16x5x5 by .*leave"
    with pytest.warns(WidenedBytesWarning, match=told):
        library = assert_as_on_cpus(Products(), x, compiled(Products(), x))
    assert "products of two activations" in library.verdict()


class Attention(nn.Module):
    """Attention whose first product is of bytes, in half precision."""

    def forward(self, x):
        """Map ``(..., rows, 64)`` to the same."""
        query, key = rounded(x.float()).half(), rounded(x.float(), 0).half()
        return nn.functional.scaled_dot_product_attention(query, key, x)


def test_attention_in_one_kernel_is_told():
    x = torch.randn(2, 3, 32, 64).half()
    told = r"products in attention multiply.*: 2x3x32x64 by 2x3x64x32; "
    with pytest.warns(WidenedBytesWarning, match=told):
        library = compiled(Attention(), x)
    assert any("attention" in kernel.function for kernel in library.kernels)


def test_products_of_open_extents_stay_in_floats_and_a_warning_says_so():
    x, dims = torch.randn(2, 16, 5, 7), {"x": {2: torch.export.Dim("rows", min=2, max=64)}}
    told = r"products of two activations.*: 2x16x\?x7 by 2x16x7x\?, .* such extents$"
    with pytest.warns(WidenedBytesWarning, match=told):
        compiled(Products(), x, "cpu", dynamic_shapes=dims)


def test_each_kind_has_one_warning():
    x, model = torch.randn(2, 16, 7, 7), nn.Sequential(Products(2), Products(1))
    with pytest.warns(WidenedBytesWarning) as found:
        compiled(model, x)
    groups, products = sorted(str(one.message) for one in found)
    assert groups.startswith("convolutions in groups multiply no bytes")
    assert products.startswith("products of two activations multiply no bytes")
    assert ": 2x16x7x7 by 2x16x7x7 (4 times); " in products


def test_explain_says_it(tmp_path):
    source = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Products().eval(), (torch.randn(1, 16, 6, 6),)), source)
    done = CliRunner().invoke(app, ["explain", str(source), "--target", TARGET])
    assert done.exit_code == 0, done.output
    assert " ".join(done.output.split()).count("products of two activations") == 1
    done = CliRunner().invoke(app, ["explain", str(source), "--target", TARGET, "--json"])
    assert '"in_floats": [' in done.output


@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
def test_nobody_is_warned_where_bytes_are_multiplied_or_there_are_none():
    for model, target in ((Linear(), "cpu"), (Linear(), TARGET), (Linear(0), TARGET)):
        assert not compiled(model, torch.randn(4, 32), target).decisions.in_floats
    assert not compiled(Products(1), torch.randn(1, 16, 5, 5), "cpu").decisions.in_floats


def test_the_command_line_says_it_once(tmp_path):
    source, x = tmp_path / "model.pt2", torch.randn(1, 16, 6, 6)
    torch.export.save(torch.export.export(Depthwise(2).eval(), (x,)), source)
    done = CliRunner().invoke(app, ["compile", str(source), "--target", TARGET, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert " ".join(done.output.split()).count("multiply no bytes") == 1
