"""Layers of a safetensors file."""

from __future__ import annotations

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from tvm_sparse.inspection.tensors import tensor_layers


def test_kinds_by_name_and_shape(tmp_path):
    module = nn.ModuleDict(
        {
            "embed": nn.Embedding(10, 4),
            "conv": nn.Conv2d(3, 4, 3),
            "dw": nn.Conv2d(4, 4, 3, groups=4),
            "norm": nn.BatchNorm2d(4),
            "gru": nn.GRU(4, 8),
            "attn": nn.MultiheadAttention(4, 2),
            "fc": nn.Linear(4, 2),
        }
    )
    prune.l1_unstructured(module["fc"], "weight", 0.5)
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    layers = {layer.name: layer for layer in tensor_layers(tmp_path / "w.safetensors")}
    assert {name: layer.layer_type for name, layer in layers.items()} == {
        "conv": "conv2d",
        "dw": "depthwise conv2d",
        "gru.weight_ih_l0": "gru input gates",
        "gru.weight_hh_l0": "gru hidden gates",
        "attn.in_proj_weight": "attention projection",
        "attn.out_proj": "attention projection",
        "fc": "linear",
    }
    assert layers["fc"].storage == "masked" and layers["conv"].storage == "dense"
    assert np.array_equal(layers["fc"].read(), module["fc"].weight.detach())
    assert np.array_equal(layers["dw"].read(), module["dw"].weight.detach())


def test_brain_floats_are_read(tmp_path):
    weight = torch.randn(4, 4).bfloat16()
    save_file({"fc.weight": weight}, tmp_path / "w.safetensors")
    (layer,) = tensor_layers(tmp_path / "w.safetensors")
    assert layer.read().dtype.name == "bfloat16"
    assert np.array_equal(layer.read().astype(np.float32), weight.float())
