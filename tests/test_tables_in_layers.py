"""SiLU in bytes: a table is looked up in the kernel of the layer in front of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.kernels import host
from tvm_sparse.comparison.quantized import quantize
from tvm_sparse.comparison.reference import fed, onnxruntime_session
from tvm_sparse.machine.registry import machine_of

fuses = pytest.mark.skipif(
    not (machine_of(host()).pack and machine_of(host()).table), reason="registers hold no table"
)


def compiled(module, x, path):
    """Return ``module``, quantized by onnxruntime, as a library, and what it should make of x."""
    plain, file = path / "plain.onnx", path / "bytes.onnx"
    torch.onnx.export(module.eval(), (x,), dynamo=True, verbose=False).save(plain)
    quantize(plain, file, [x.numpy()])
    expected = fed(onnxruntime_session(str(file), 1, optimised=False), [x.numpy()])()[0]
    return ts.compile(file, config=ts.Config(measure=False)), expected


@pytest.mark.grid
@fuses
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("channels", [16, 48, 64, 112, 144, 176])
def test_layers_look_up_their_own_bytes(channels, tmp_path):
    """Of any number of whole vectors, with borders and without, of several rows at a time."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(32, channels, 1), nn.SiLU()]
    layers += [nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.SiLU()]
    x = torch.randn(1, 32, 7, 9)
    library, expected = compiled(nn.Sequential(*layers, nn.Conv2d(channels, 32, 1)), x, tmp_path)
    names = [kernel.function for kernel in library.kernels]
    assert sum("_looked_up" in name for name in names) == 2
    assert not any(name.startswith(("looked_up", "byte_table")) for name in names)
    step = np.abs(expected).max() / 127
    assert np.abs(library(x.numpy()) - expected).max() <= step


@fuses
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_partial_vectors_are_looked_up_in_a_kernel_of_their_own(tmp_path):
    torch.manual_seed(0)
    layers = [nn.Conv2d(32, 24, 1), nn.SiLU(), nn.Conv2d(24, 32, 1)]
    x = torch.randn(1, 32, 7, 9)
    library, expected = compiled(nn.Sequential(*layers), x, tmp_path)
    assert any(kernel.function.startswith("byte_table") for kernel in library.kernels)
    step = np.abs(expected).max() / 127
    assert np.abs(library(x.numpy()) - expected).max() <= step
