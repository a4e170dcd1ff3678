import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.calibration import checked
from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.extents import fixed_extent, said

RNG = np.random.default_rng(0)


def dim(value):
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [value])
    return kind.tensor_type.shape.dim[0]


@pytest.mark.parametrize(
    ("written", "fixed", "shown"),
    [(4, 4, 4), (0, 0, 0), (-1, None, None), ("n", None, "n"), (None, None, None)],
)
def test_extents_as_exporters_write_them(written, fixed, shown):
    assert (fixed_extent(dim(written)), said(dim(written))) == (fixed, shown)


@pytest.fixture(params=[-1, None, "n"])
def document(request, tmp_path):
    weight = RNG.random((4, 3), np.float32)
    proto = graph([node("MatMul", "x w", "y")], {"x": [1, 4]}, ["y"], {"w": weight})
    proto.graph.input[0].type.CopyFrom(
        helper.make_tensor_type_proto(TensorProto.FLOAT, [request.param, 4])
    )
    onnx.save(proto, tmp_path / "m.onnx")
    return Document(tmp_path / "m.onnx")


def test_a_batch_of_any_size_fits_an_open_extent(document):
    (batch,) = checked(document, [RNG.random((8, 4), np.float32)])
    assert batch["x"].shape == (8, 4)


def test_the_fixed_extent_beside_it_is_checked(document):
    with pytest.raises(InputError, match=r"expected shape \[(n|\?), 4\]"):
        checked(document, [RNG.random((8, 5), np.float32)])
