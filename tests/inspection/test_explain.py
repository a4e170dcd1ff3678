"""What stands between a layer and a faster kernel, counted by hand."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.inspection.explain import advise
from tvm_sparse.patterns.balanced import Balanced

MODELLED = ts.Config(measure=False)


def nearly_balanced(rows: int, cols: int, extra: int) -> torch.Tensor:
    """Return a weight that is balanced 2 of 16 but for ``extra`` small values, one a bank."""
    torch.manual_seed(0)
    weight = torch.rand(rows, cols) + 1
    weight *= torch.from_numpy(Balanced(16, 2).project(weight.numpy()))
    rows_of, banks = np.divmod(np.arange(extra), cols // 16)
    for row, bank in zip(rows_of, banks, strict=True):
        free = (weight[row, bank * 16 : bank * 16 + 16] == 0).nonzero()[0]
        weight[row, bank * 16 + int(free)] = 0.125
    return weight


def linear(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False).eval()
    layer.weight.data = weight
    return layer


def advice_of(module: nn.Module, x: torch.Tensor):
    return advice_on(ts.load(module, (x,)), MODELLED)


def advice_on(model, config):
    return advise(model, ts.compile(model, config=config), config)


def test_weights_in_the_way_are_counted():
    torch.manual_seed(0)
    weight = torch.randn(64, 256) * (torch.rand(64, 256) > 0.88)
    model = nn.Sequential(linear(weight), nn.ReLU(), nn.Linear(64, 8)).eval()
    first, second = advice_of(model, torch.rand(2, 256))
    near = first.nearest
    assert near is not None and near.nonzeros == int((weight != 0).sum())
    kept = Balanced(16, 2).project(weight.abs().numpy())
    assert (near.pattern, near.in_the_way) == ("balanced 2 of 16", int((weight[~kept] != 0).sum()))
    assert near.in_the_way > 0
    assert near.chosen not in ("dense", "")
    assert (near.us, first.us, first.gain) == (None, None, None)
    assert second.nearest is None and second.reason == "no zeros"
    assert first.to_json()["nearest"]["in_the_way"] == near.in_the_way


def test_a_layer_that_runs_on_a_pattern_needs_no_advice():
    (layer,) = advice_of(linear(nearly_balanced(64, 256, extra=0)), torch.rand(2, 256))
    assert layer.chosen == "balanced" and layer.nearest is None


@pytest.mark.grid
@pytest.mark.parametrize("square", [False, True])
def test_weights_with_inputs_first(tmp_path, square):
    weight = nearly_balanced(256 if square else 64, 256, extra=40).numpy()
    model = graph(
        [node("MatMul", "x w", "y")], {"x": [2, 256]}, ["y"], {"w": np.ascontiguousarray(weight.T)}
    )
    info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, len(weight)])
    model.graph.output[0].CopyFrom(info)
    onnx.save(model, tmp_path / "m.onnx")
    config = ts.Config(measure=False, force={"*": "dense"})
    (layer,) = advice_on(ts.load(tmp_path / "m.onnx"), config)
    assert layer.nearest is not None and layer.nearest.in_the_way == 40


def test_convolutions_and_masks():
    torch.manual_seed(0)
    conv = nn.Conv2d(32, 64, 3, padding=1, bias=False).eval()
    prune.l1_unstructured(conv, "weight", 0.9)
    (layer,) = advice_of(conv, torch.rand(1, 32, 8, 8))
    near = layer.nearest
    assert near is not None and near.nonzeros == int((conv.weight != 0).sum())
    assert 0 < near.in_the_way < near.nonzeros


def test_depthwise_and_nearly_dense_layers_are_left_alone():
    torch.manual_seed(0)
    depthwise = nn.Conv2d(32, 32, 3, groups=32)
    pointwise = nn.Conv2d(32, 64, 1)
    for layer, fraction in ((depthwise, 0.9), (pointwise, 0.2)):
        prune.random_unstructured(layer, "weight", fraction)
    model = nn.Sequential(depthwise, pointwise).eval()
    assert all(a.nearest is None for a in advice_of(model, torch.rand(1, 32, 8, 8)))


@pytest.mark.grid
@pytest.mark.parametrize(("zeros", "pattern"), [(0.5, "balanced 8 of 16"), (0.06, "")])
def test_the_cost_model_says_from_how_many_zeros_on_a_pattern_would_gain(zeros, pattern):
    torch.manual_seed(0)
    weight = torch.rand(64, 512) + 1
    weight.flatten()[torch.randperm(weight.numel())[: int(zeros * weight.numel())]] = 0
    (layer,) = advice_of(linear(weight), torch.rand(64, 512))
    assert (layer.nearest.pattern if layer.nearest else "") == pattern
