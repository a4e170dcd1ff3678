"""Squeeze and excite in bytes: a gate for each channel is rounded in the kernel that makes it."""

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.quantized_networks import by_onnxruntime
from tvm_sparse.comparison.quantized import quantize


class Gated(nn.Module):
    """A block of EfficientNet: what multiplies the gate is never stored as bytes."""

    def __init__(self):
        super().__init__()
        self.widen, self.narrow = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 1)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.squeeze, self.excite = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)

    def forward(self, x):
        y = nn.functional.silu(self.depthwise(nn.functional.silu(self.widen(x))))
        z = nn.functional.silu(self.squeeze(nn.functional.adaptive_avg_pool2d(y, 1)))
        return self.narrow(y * torch.sigmoid(self.excite(z))) + x


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_gate_is_rounded_where_it_is_made(tmp_path):
    torch.manual_seed(0)
    model, x = Gated().eval(), torch.randn(1, 16, 14, 14)
    plain, path = tmp_path / "plain.onnx", tmp_path / "bytes.onnx"
    torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(plain)
    quantize(plain, path, [x.numpy()])
    library = ts.compile(path, config=ts.Config(measure=False))
    assert any("multiply_bytes" in kernel.function for kernel in library.kernels)
    expected = by_onnxruntime(path, x.numpy())
    step = np.abs(expected).max() / 127
    assert np.abs(np.asarray(library(x)) - expected).max() <= step
