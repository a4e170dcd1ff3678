"""Hostile and damaged files are one clear error each."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import SparseError
from tvm_sparse.frontends.onnx import load_onnx
from tvm_sparse.frontends.onnx.reader import read_onnx
from tvm_sparse.frontends.onnx.weights import take_weights

WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)


def _model(tmp_path, nodes=None, shape=(2, 3)):
    model = graph(nodes or [node("MatMul", "x w", "y")], {"x": shape}, ["y"], {"w": WEIGHT})
    value = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b"])
    model.graph.output[0].CopyFrom(value)
    onnx.save(model, tmp_path / "model.onnx")
    return model, tmp_path / "model.onnx"


def _external(tmp_path, location):
    model, path = _model(tmp_path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_in_a_file_beside_are_read(tmp_path):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    proto = read_onnx(_external(tmp_path, "w.bin"))
    assert np.array_equal(take_weights(proto)["w"], WEIGHT)
    assert not proto.graph.initializer[0].raw_data


@pytest.mark.parametrize("location", ["../w.bin", "/w.bin", "none.bin", "link.bin"])
def test_weights_elsewhere_are_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    path = _external(folder, str(tmp_path / "w.bin") if location == "/w.bin" else location)
    with pytest.raises(SparseError, match="is no sound ONNX model"):
        read_onnx(path)


def test_a_weight_file_that_is_too_short_is_refused(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"1234")
    with pytest.raises(SparseError):
        load_onnx(_external(tmp_path, "w.bin"))


def test_a_cycle_is_refused(tmp_path):
    _, path = _model(tmp_path, [node("Add", "x b", "a"), node("Relu", "a", "b")])
    with pytest.raises(SparseError, match="is no sound ONNX model"):
        load_onnx(path)


def test_a_shape_that_cannot_be_is_refused(tmp_path):
    _, path = _model(tmp_path, shape=(1 << 40, 1 << 20))
    with pytest.raises(SparseError, match="input 'x'"):
        load_onnx(path)


def test_a_sparse_weight_of_a_huge_shape_is_refused(tmp_path):
    model, path = _model(tmp_path)
    sparse = model.graph.sparse_initializer.add(dims=[1 << 30, 1 << 30])
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "s"))
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.zeros(1, np.int64), "i"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(SparseError, match=r"weight 's'|no sound"):
        load_onnx(path)


def test_a_file_cut_short_is_refused(tmp_path):
    _, path = _model(tmp_path)
    data = path.read_bytes()
    for length in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(SparseError):
            load_onnx(path)
