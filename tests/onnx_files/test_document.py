"""Files are written as they were read, but for what was changed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.checker import check
from tvm_sparse.onnx_files.document import Document

WEIGHTS = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(4, dtype=np.float32),
    "large": np.arange(5000, dtype=np.float32),
}


def model():
    nodes = [node("MatMul", "x w", "h"), node("Add", "h b", "y")]
    made = graph(nodes, {"x": (2, 3)}, ["y"], WEIGHTS)
    made.metadata_props.add(key="who", value="me")
    made.doc_string = "what"
    return made


@pytest.fixture(params=["inside", "one file", "a file each"])
def path(request, tmp_path):
    place = tmp_path / "m.onnx"
    options = {
        "inside": {},
        "one file": {"save_as_external_data": True, "location": "all.bin", "size_threshold": 0},
        "a file each": {
            "save_as_external_data": True,
            "all_tensors_to_one_file": False,
            "size_threshold": 0,
        },
    }[request.param]
    onnx.save(model(), place, **options)
    return place


def arrays(place):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(place).graph.initializer}


def test_what_is_not_changed_stays(path, tmp_path):
    document = Document(path)
    inside = not document.is_external(document.proto.graph.initializer[0])
    new = tmp_path / "new.onnx"
    document.save(new)
    assert (tmp_path / "new.onnx.data").exists() != inside
    if inside:
        assert new.read_bytes() == path.read_bytes()
    for name, array in arrays(new).items():
        assert np.array_equal(array, WEIGHTS[name])
    w = document.proto.graph.initializer[0]
    document.replace(w, 2 * document.array(w))
    document.save(new)
    assert np.array_equal(arrays(new)["w"], 2 * WEIGHTS["w"])
    assert np.array_equal(arrays(new)["large"], WEIGHTS["large"])
    assert np.array_equal(arrays(path)["w"], WEIGHTS["w"])
    proto = onnx.load(new)
    assert (proto.doc_string, proto.metadata_props[0].key) == ("what", "who")
    check(new)


def test_its_own_weights_are_never_written_over(path, tmp_path):
    document = Document(path)
    if not document.is_external(document.proto.graph.initializer[0]):
        document.save(path)
        assert np.array_equal(arrays(path)["w"], WEIGHTS["w"])
        return
    with pytest.raises(InputError, match="its weights come from"):
        document.save(path)
    (tmp_path / "other.onnx").touch()
    location = document.proto.graph.initializer[0].external_data[0].value
    (tmp_path / location).rename(tmp_path / "other.onnx.data")
    for tensor in document.proto.graph.initializer:
        tensor.external_data[0].value = "other.onnx.data"
    with pytest.raises(InputError, match="its weights come from"):
        document.save(tmp_path / "other.onnx")


def test_new_tensors_lie_where_others_do(path, tmp_path):
    document = Document(path)
    like = document.proto.graph.initializer[0]
    document.add("new", np.arange(7), like)
    document.save(tmp_path / "new.onnx")
    assert np.array_equal(arrays(tmp_path / "new.onnx")["new"], np.arange(7))
    tensor = Document(tmp_path / "new.onnx").proto.graph.initializer[-1]
    assert document.is_external(tensor) == document.is_external(like)


def test_what_cannot_be_read_or_written_is_one_error(tmp_path):
    for source in (tmp_path, tmp_path / "none.onnx"):
        with pytest.raises(InputError, match=r"is no file|no such file"):
            Document(source)
    with pytest.raises(InputError, match="cannot be written"):
        Document(model()).save(tmp_path / "none" / "m.onnx")
    made = model()
    made.graph.initializer[0].raw_data = b"123"
    with pytest.raises(InputError, match="is damaged"):
        document = Document(made)
        document.array(document.proto.graph.initializer[0])
    onnx.save(model(), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(InputError, match="whose folder is not known"):
        Document(onnx.load(tmp_path / "m.onnx", load_external_data=False))
