import numpy as np
import pytest

from tvm_sparse_runtime.spec import ITEM_BYTES, TensorSpec, nbytes


def test_text_and_json():
    spec = TensorSpec("x", ("batch", 3), "float16")
    assert str(spec) == "x: float16[batch, 3]"
    assert spec.to_json() == {"name": "x", "shape": ["batch", 3], "dtype": "float16"}


@pytest.mark.parametrize("dtype", [d for d in ITEM_BYTES if d != "bfloat16"])
def test_nbytes_as_numpy(dtype):
    for shape in ((), (0, 3), (2, 5)):
        assert nbytes(shape, dtype) == np.zeros(shape, dtype).nbytes
