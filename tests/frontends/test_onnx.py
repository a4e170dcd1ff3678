"""ONNX files as models."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.frontends.networks import onnx_file, sparse_network
from tests.frontends.running import largest_difference
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.onnx import load_onnx, read_onnx


@pytest.mark.grid
@pytest.mark.parametrize("sparse", [False, True])
def test_outputs_are_those_of_pytorch_and_weights_keep_their_names(tmp_path, sparse):
    module, x = sparse_network()
    model = load_onnx(onnx_file(tmp_path / "net.onnx", module, sparse=sparse))
    assert largest_difference(model, module, x) < 1e-5
    assert set(model.weights) == set(module.state_dict())
    assert np.array_equal(model.weights["5.weight"], module[5].weight.detach())
    assert model.inputs[0].name == "x" and model.inputs[0].shape[1:] == (2, 8, 8)
    assert [s.name for s in model.outputs] == ["y"]
    assert len(model.module["main"].ret_ty.fields) == 1


def test_sparse_initializers_of_two_axes_of_indices(tmp_path):
    onnx = pytest.importorskip("onnx")
    module, _ = sparse_network()
    path = onnx_file(tmp_path / "net.onnx", module, sparse=True)
    proto = onnx.load(str(path))
    tensor = proto.graph.sparse_initializer[0]
    flat = onnx.numpy_helper.to_array(tensor.indices)
    pairs = np.stack(np.unravel_index(flat, tuple(tensor.dims)), axis=1)
    tensor.indices.CopyFrom(onnx.numpy_helper.from_array(pairs))
    onnx.save(proto, str(path))
    (found,) = [t for t in read_onnx(path).graph.initializer if t.name == "5.weight"]
    assert np.array_equal(onnx.numpy_helper.to_array(found), module[5].weight.detach())


def test_weights_listed_as_inputs_are_no_inputs(tmp_path):
    onnx = pytest.importorskip("onnx")
    module, x = sparse_network()
    path = onnx_file(tmp_path / "net.onnx", module)
    proto = onnx.load(str(path))
    info = onnx.helper.make_tensor_value_info("6.bias", onnx.TensorProto.FLOAT, [4])
    proto.graph.input.append(info)
    onnx.save(proto, str(path))
    model = load_onnx(path)
    assert [s.name for s in model.inputs] == ["x"]
    assert largest_difference(model, module, x) < 1e-5


def test_an_unknown_operator_is_named_with_its_node(tmp_path):
    onnx = pytest.importorskip("onnx")
    module, _ = sparse_network()
    path = onnx_file(tmp_path / "net.onnx", module)
    proto = onnx.load(str(path))
    proto.opset_import.append(onnx.helper.make_opsetid("own", 1))
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "Mystery", "own"
    batch = proto.graph.input[0].type.tensor_type.shape.dim[0]
    batch.ClearField("dim_value")
    batch.dim_param = "batch"  # an open extent is not what stands in the way
    onnx.save(proto, str(path))
    told = r"node 'first': operator 'Mystery' of domain 'own' cannot be imported.*as a function"
    with pytest.raises(UnsupportedError, match=told):
        load_onnx(path)


def test_an_unsound_attribute_is_one_error(tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    module, _ = sparse_network()
    path = onnx_file(tmp_path / "net.onnx", module)
    proto = onnx.load(str(path))
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("auto_pad", "ODD"))
    onnx.save(proto, str(path))
    with pytest.raises(InputError, match=r"node 'first': operator 'Conv': auto_pad 'ODD'"):
        load_onnx(path)
    assert capsys.readouterr().out == ""


def test_missing_and_damaged_files(tmp_path):
    pytest.importorskip("onnx")
    with pytest.raises(InputError, match="no such file"):
        load_onnx(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(InputError, match="is no sound ONNX model"):
        load_onnx(tmp_path / "bad.onnx")


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"'onnx' is not installed; pip install onnx"):
        load_onnx(tmp_path / "net.onnx")
