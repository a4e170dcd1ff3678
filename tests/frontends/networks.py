"""Small networks in the forms that frontends read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn


def pair() -> nn.Sequential:
    """What the factory tests name: ``tests.frontends.networks:pair``."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def tied() -> nn.ModuleDict:
    """Two layers that share one weight."""
    module = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)})
    module["b"].weight = module["a"].weight
    return module


def nothing() -> None:
    """A factory that returns no module."""


def broken() -> nn.Module:
    """A factory that fails."""
    raise RuntimeError("no such configuration")


def sparse_network() -> tuple[nn.Sequential, torch.Tensor]:
    """A network with every second weight zero, and an input."""
    layers = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU()]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 8), nn.Linear(8, 4)).eval()
    for layer in module:
        if hasattr(layer, "weight"):
            layer.weight.data.view(-1)[::2] = 0
    return module, torch.randn(2, 2, 8, 8)


def onnx_file(path: Path, module: nn.Sequential, *, sparse: bool = False) -> Path:
    """Write :func:`sparse_network` as ONNX: convolutions, Gemm, and MatMul with Add."""
    onnx = pytest.importorskip("onnx")
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    values = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    values["6.weight"] = np.ascontiguousarray(values["6.weight"].T)
    nodes = [
        helper.make_node("Conv", ["x", "0.weight", "0.bias"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "2.weight", "2.bias"], ["c"], group=4),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "5.weight", "5.bias"], ["f"], transB=1),
        helper.make_node("MatMul", ["f", "6.weight"], ["g"]),
        helper.make_node("Add", ["g", "6.bias"], ["y"]),
    ]
    dense = [array(v, n) for n, v in values.items() if not (sparse and n == "5.weight")]
    extra = [_sparse(onnx, values["5.weight"], "5.weight")] if sparse else []
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 4])],
        dense,
        sparse_initializer=extra,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(path))
    return path


def _sparse(onnx: Any, value: np.ndarray, name: str) -> Any:
    places = np.flatnonzero(value)
    array = onnx.numpy_helper.from_array
    return onnx.helper.make_sparse_tensor(
        array(value.reshape(-1)[places], name), array(places.astype(np.int64)), value.shape
    )
