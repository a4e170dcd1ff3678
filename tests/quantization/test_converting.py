"""Batch norms that no convolution takes in are themselves again after torchao's conversion."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

pytest.importorskip("torchao")


def test_batch_norms_before_convolutions(monkeypatch):
    qat = pytest.importorskip("torchao.quantization.pt2e.qat_utils")
    searched = []

    def search(module, *_args, **_named):
        searched.append(module)
        return module

    monkeypatch.setattr(qat, "_fold_conv_bn_qat_helper", search)
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(16)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    model = nn.Sequential(norm, nn.ReLU(), nn.Conv2d(16, 16, 3)).eval()
    x = torch.randn(2, 16, 6, 6)
    program = ts.quantize(model, [x])
    assert not searched
    assert any("batch_norm" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x), model(x), rtol=0, atol=0.05)
