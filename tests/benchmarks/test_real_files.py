"""Files of published packages become rows, whatever becomes of them."""

from __future__ import annotations

import zipfile

import numpy as np
import onnx

from benchmarks import real_files
from benchmarks.harness.packages import onnx_files
from tests.frontends.onnx.graphs import graph, node


def _package(folder, **models):
    (folder / "nets").mkdir()
    with zipfile.ZipFile(folder / "nets" / "nets-1-py3-none-any.whl", "w") as archive:
        for name, content in models.items():
            archive.writestr(f"nets/{name}.onnx", content)
    return folder


def test_each_file_of_a_package_is_tried_once(tmp_path):
    folder = _package(tmp_path, a=b"one", b=b"two", copy=b"one")
    found = [name for name, _ in onnx_files("nets", folder)]
    assert found == ["nets/nets/a.onnx", "nets/nets/b.onnx"]


def test_rows_say_what_became_of_a_file(tmp_path):
    weight = {"w": np.ones((16, 8), np.float32)}
    model = graph([node("MatMul", "x w", "y")], {"x": ["n", 16]}, ["y"], weight, opset=17)
    kind = onnx.TensorProto.FLOAT
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", kind, ["n", 8]))
    folder = _package(tmp_path, right=model.SerializeToString(), damaged=b"no model")
    right, damaged = (real_files._row(path) for _, path in onnx_files("nets", folder))
    right, damaged = sorted((right, damaged), key=lambda row: row["state"], reverse=True)
    assert right["state"] == "right" and right["bounds"] == {"n": [1, None]}
    assert damaged["state"] == "refused" and "no sound ONNX model" in damaged["why"]


def test_a_quantized_file_is_judged_on_several_draws(tmp_path, monkeypatch):
    near = {"library": 1.0, "onnxruntime, plain": 2.0, "onnxruntime, passes": 3.0}
    draws = iter([{**near, "library": 4.0}, near, near, near])
    monkeypatch.setattr(real_files.exact_onnx, "distances", lambda *_: next(draws))
    monkeypatch.setattr(real_files, "TOLERANCE", -1.0)
    weight = {"w": np.ones((16, 8), np.float32), "s": np.float32(0.1), "z": np.uint8(0)}
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d")]
    model = graph([*nodes, node("MatMul", "d w", "y")], {"x": [4, 16]}, ["y"], weight, opset=17)
    onnx.save(model, tmp_path / "q.onnx")
    row = real_files._row(tmp_path / "q.onnx")
    assert row["state"] == "rounded" and row["distances"]["library"] == 1.75


def test_sizes_lie_in_their_range():
    assert real_files._size(1, None, large=False) == 1
    assert real_files._size(1, None, large=True) == 32
    assert real_files._size(448, 703, large=True) == 703


def test_a_quantized_file_is_as_near_to_exact_as_onnxruntime():
    near = {"library": 1e-4, "onnxruntime, plain": 2e-4, "onnxruntime, passes": 3e-4}
    assert real_files._judged(near)["state"] == "rounded"
    assert real_files._judged({**near, "library": 2.5e-4})["state"] == "wrong"
