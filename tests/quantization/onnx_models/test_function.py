"""Quantized files: right in onnxruntime and here, layers of integers, all else unchanged."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import tvm_sparse as ts
from tests.exported import exported
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError

CONFIG = ts.Config(measure=False)


class Small(nn.Module):
    """Convolutions with a pooling layer between them, and linear layers of both forms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 3, stride=2)
        self.rows = nn.Linear(32, 48, bias=False)
        self.head = nn.Linear(48, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        x = torch.relu(self.down(x)).flatten(2).transpose(1, 2)
        return self.head(torch.relu(self.rows(x)).mean(1))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    torch.manual_seed(0)
    model = Small().eval()
    path = tmp_path_factory.mktemp("small") / "small.onnx"
    exported(model, torch.randn(2, 8, 12, 12), path, old=True)
    return path


@pytest.fixture(scope="module")
def batches():
    return [*np.random.default_rng(0).standard_normal((4, 2, 8, 12, 12)).astype(np.float32)]


def run(path, x):
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    return found


def error(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.grid
@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_the_file_is_right_everywhere_and_multiplies_integers(
    small, batches, activations, tmp_path
):
    path = tmp_path / "q.onnx"
    result = ts.quantize_onnx(small, batches, activations=activations, output=path)
    assert len(result.layers) == 4
    assert not result.left_float
    wanted, found = run(small, batches[0]), run(path, batches[0])
    assert 0 < error(found, wanted) < 0.05
    onnx.checker.check_model(onnx.load(path), full_check=True)
    library = ts.compile(path, config=CONFIG)
    assert error(library(batches[0]), found) < 0.02
    kernels = {k.layer: k.function for k in library.kernels if k.layer}
    assert len(kernels) == 4
    assert all("uint8" in function for function in kernels.values()), kernels


def test_nothing_else_changes(small, batches, tmp_path):
    path = tmp_path / "q.onnx"
    ts.quantize_onnx(small, batches, output=path)
    before, after = onnx.load(small), onnx.load(path)
    assert after.opset_import == before.opset_import
    assert after.metadata_props == before.metadata_props
    assert after.producer_name == before.producer_name
    assert after.graph.input == before.graph.input
    assert after.graph.output == before.graph.output
    added = ("QuantizeLinear", "DequantizeLinear")
    kept = [n for n in after.graph.node if n.op_type not in added]
    assert [(n.name, n.op_type, [*n.output]) for n in kept] == [
        (n.name, n.op_type, [*n.output]) for n in before.graph.node
    ]
    assert len(path.read_bytes()) < 0.5 * len(small.read_bytes())


def test_pruned_zeros_stay_zeros(small, batches, tmp_path):
    method = ts.prune.BalancedPruning(0.75, bank=8)
    ts.prune.onnx(small, method, output=tmp_path / "p.onnx")
    ts.quantize_onnx(tmp_path / "p.onnx", batches, output=tmp_path / "q.onnx")
    tensors = onnx.load(tmp_path / "q.onnx").graph.initializer
    weights = [
        numpy_helper.to_array(t)
        for t in tensors
        if t.data_type == onnx.TensorProto.INT8 and len(t.dims) > 1
    ]
    assert len(weights) == 4
    assert all((w == 0).mean() >= 0.75 for w in weights)


WEIGHT = np.random.default_rng(0).standard_normal((32, 48)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)


def forms():
    """Yield models that hold one weight in every way."""
    gemm = {"b": np.arange(48, dtype=np.float32)}
    turned = node("Gemm", "x w b", "y", transB=1)
    yield "turned", graph([turned], {"x": (4, 32)}, ["y"], {"w": WEIGHT.T, **gemm})
    scaled = node("Gemm", "x w b", "y", alpha=0.5, beta=2.0)
    yield "scaled", graph([scaled], {"x": (4, 32)}, ["y"], {"w": WEIGHT, **gemm})
    value = numpy_helper.from_array(WEIGHT, "value")
    held = onnx.helper.make_node("Constant", [], ["w"], "held", value=value)
    yield "constant", graph([held, node("MatMul", "x w", "y")], {"x": (4, 32)}, ["y"], {})
    passed = [node("Transpose", "w", "t"), node("MatMul", "x t", "y")]
    yield "passed", graph(passed, {"x": (4, 32)}, ["y"], {"w": WEIGHT.T.copy()})
    left = [node("Transpose", "x", "t"), node("MatMul", "w t", "y")]
    yield "left", graph(left, {"x": (4, 32)}, ["y"], {"w": WEIGHT.T.copy()})
    old = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
    model = graph(old, {"x": (4, 32)}, ["y"], {"w": WEIGHT}, opset=11)
    model.ir_version = 7
    yield "old", model


@pytest.mark.parametrize(("name", "model"), [*forms()])
@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_weights_of_every_form(name, model, activations, tmp_path):
    onnx.save(model, tmp_path / "m.onnx")
    result = ts.quantize_onnx(model, [X], activations=activations, output=tmp_path / "q.onnx")
    assert len(result.layers) == 1
    assert error(run(tmp_path / "q.onnx", X), run(tmp_path / "m.onnx", X)) < 0.03
    floats = [t for t in onnx.load(tmp_path / "q.onnx").graph.initializer if t.data_type == 1]
    assert all(np.prod(t.dims) <= 48 for t in floats)


def test_layers_that_lose_too_much_or_are_ignored_stay_float(small, batches):
    result = ts.quantize_onnx(small, batches, tolerance=1e-6)
    assert not result.layers
    assert set(result.losses) == set(result.left_float)
    assert all("would change its output" in why for why in result.left_float.values())
    assert all(0 < loss < 0.05 for loss in result.losses.values())
    result = ts.quantize_onnx(small, batches, ignore=["head", "con*"], tolerance=0.5)
    assert result.left_float == {"head": "in ignore", "conv": "in ignore"}
    assert len(result.layers) == 2


def test_weights_in_files_become_bytes_in_files(tmp_path):
    model = graph([node("MatMul", "x w", "y")], {"x": (4, 32)}, ["y"], {"w": WEIGHT})
    place = {"save_as_external_data": True, "location": "m.bin", "size_threshold": 0}
    onnx.save(model, tmp_path / "m.onnx", **place)
    ts.quantize_onnx(tmp_path / "m.onnx", [X], output=tmp_path / "q.onnx")
    assert (tmp_path / "q.onnx.data").stat().st_size == WEIGHT.size
    assert error(run(tmp_path / "q.onnx", X), X @ WEIGHT) < 0.03


@pytest.mark.parametrize("residual", [False, True])
def test_what_is_pooled_is_rounded_before_unless_something_else_reads_it(residual, tmp_path):
    rng = np.random.default_rng(2)
    kernels = [rng.standard_normal((8, 8, 3, 3)).astype(np.float32) for _ in range(2)]
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w", "c", **same),
        node("MaxPool", "c", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "p v", "d", **same),
        node("Add", "d p", "y") if residual else node("Relu", "d", "y"),
    ]
    weights = dict(zip("wv", kernels, strict=True))
    onnx.save(graph(nodes, {"x": (1, 8, 8, 8)}, ["y"], weights), tmp_path / "m.onnx")
    x = rng.standard_normal((1, 8, 8, 8)).astype(np.float32)
    ts.quantize_onnx(tmp_path / "m.onnx", [x], output=tmp_path / "q.onnx")
    graph_ = onnx.load(tmp_path / "q.onnx").graph
    pool = next(n for n in graph_.node if n.op_type == "MaxPool")
    assert pool.input[0] == ("c" if residual else "c_dequantized")
    assert error(run(tmp_path / "q.onnx", x), run(tmp_path / "m.onnx", x)) < 0.03


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activations": "fast"}, "static or dynamic"),
        ({"tolerance": 0.0}, "above zero"),
        ({"ignore": ["z"]}, "no layer 'z'"),
        ({"batches": []}, "no batch"),
        ({"batches": [X[:, :2]]}, "has shape"),
        ({"batches": [np.full_like(X, np.inf)]}, "NaN or infinite"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message):
    model = graph([node("MatMul", "x w", "y")], {"x": (4, 32)}, ["y"], {"w": WEIGHT})
    with pytest.raises(InputError, match=message):
        ts.quantize_onnx(model, options.pop("batches", [X]), **options)


@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_a_file_whose_weights_are_inputs_too(small, batches, activations, tmp_path):
    old = onnx.load(small)
    old.ir_version = 3
    for weight in old.graph.initializer:
        old.graph.input.append(
            onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
        )
    onnx.checker.check_model(old)
    onnx.save(old, tmp_path / "old.onnx")
    path = tmp_path / "q.onnx"
    assert ts.quantize_onnx(
        tmp_path / "old.onnx", batches, activations=activations, output=path
    ).layers
    onnx.checker.check_model(onnx.load(path))
    wanted, found = run(small, batches[0]), run(path, batches[0])
    assert 0 < error(found, wanted) < 0.05
    assert ts.compile(path, config=CONFIG)(batches[0]).shape == wanted.shape


@pytest.mark.parametrize("options", [{}, {"activations": "dynamic"}, {"tolerance": 0.5}])
def test_a_weight_that_is_cast_before_it_is_read_stays_float(options, tmp_path):
    half = onnx.TensorProto.FLOAT16
    casts = [node("Cast", "w", "wh", to=half), node("Cast", "x", "xh", to=half)]
    nodes = [*casts, node("MatMul", "xh wh", "y")]
    model = graph(nodes, {"x": (4, 32)}, ["y"], {"w": WEIGHT})
    result = ts.quantize_onnx(model, [X], output=tmp_path / "q.onnx", **options)
    assert result.left_float == {"w": "its weight is cast to another type"}
    onnxruntime.InferenceSession(tmp_path / "q.onnx")
