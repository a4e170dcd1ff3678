"""Sound files that ONNX's checker finds fault with, and unsound ones among them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx import load_onnx

WEIGHT = np.arange(8, dtype=np.float32)


def _saved(tmp_path, nodes, opset=14):
    made = graph(nodes, {"x": (2, 8)}, ["y"], {"w": WEIGHT}, opset=opset)
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_outputs_without_a_type(tmp_path):
    model = load_onnx(_saved(tmp_path, [node("Add", "x w", "y")]))
    assert [(spec.name, spec.shape) for spec in model.outputs] == [("y", (2, 8))]


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_norms_before_onnx_had_them(operator, tmp_path):
    path = _saved(tmp_path, [node(operator, "x w", "y", epsilon=1e-5)])
    assert load_onnx(path).outputs[0].shape == (2, 8)


def test_operators_of_onnxruntime_without_their_import(tmp_path):
    made = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    assert load_onnx(_saved(tmp_path, [made])).outputs[0].shape == (2, 8)
    made = helper.make_node("Odd", ["x"], ["y"], domain="own")
    with pytest.raises(InputError, match="No opset import for domain 'own'"):
        load_onnx(_saved(tmp_path, [made]))


def test_faults_behind_others_are_found(tmp_path):
    cyclic = [
        node("Add", "x b", "a"),
        node("LayerNormalization", "a w", "b"),
        node("Relu", "b", "y"),
    ]
    with pytest.raises(InputError, match="is no sound ONNX model"):
        load_onnx(_saved(tmp_path, cyclic))


@pytest.mark.parametrize("location", ["../w.bin", "none.bin"])
def test_weights_elsewhere_are_refused_there_too(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    path = _saved(folder, [node("Add", "x w", "y")])
    made = onnx.load(path)
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(made.SerializeToString())
    with pytest.raises(InputError, match="is no sound ONNX model"):
        load_onnx(path)
