import numpy as np
import pytest

from tests.runtime import fresh
from tvm_sparse_runtime import engine
from tvm_sparse_runtime.errors import SparseRuntimeError

NUMPY = int(np.__version__.split(".", maxsplit=1)[0])
"""NumPy 1 cannot share read-only memory."""


def test_neither_torch_nor_compiler_is_loaded():
    done = fresh.run(
        "import sys\n"
        "from tvm_sparse_runtime import engine\n"
        "engine.ffi()\n"
        "import pathlib; maps = pathlib.Path('/proc/self/maps').read_text()\n"
        "assert 'libtvm_runtime' in maps and 'libtvm_compiler' not in maps\n"
        "assert not {'torch', 'tvm'} & sys.modules.keys()\n"
        "assert not any(type(hook).__name__ == '_NoTorch' for hook in sys.meta_path)\n"
        "import os; assert 'TVM_FFI_DISABLE_TORCH_C_DLPACK' not in os.environ\n"
        "import torch; print(engine.tensor(torch.ones(2)).shape)\n"
    )
    assert (done.stdout, done.stderr) == ("(2,)\n", "")


def test_torch_imported_by_another_thread_meanwhile():
    with engine._torch_left_alone():
        hook = engine.sys.meta_path[0]
        with pytest.raises(ModuleNotFoundError):
            hook.find_spec("torch")
        assert hook.find_spec("numpy") is None
        hook.thread = -1
        assert hook.find_spec("torch") is None


def test_missing_wheels(monkeypatch, tmp_path):
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(engine, "CARRIED", tmp_path)
    with pytest.raises(SparseRuntimeError, match="pip install apache-tvm"):
        engine.ffi.__wrapped__()


def test_tvm_is_taken_from_its_own_wheel_where_that_is_installed(monkeypatch, tmp_path):
    carried = tmp_path / "lib" / "libtvm_runtime.so"
    carried.parent.mkdir()
    carried.touch()
    monkeypatch.setattr(engine, "CARRIED", tmp_path)
    assert engine.runtime_library().parts[-3:] == ("tvm", "lib", "libtvm_runtime.so")
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    assert engine.runtime_library() == carried


def test_unknown_device():
    with pytest.raises(SparseRuntimeError, match="'tpu'; expected one of cpu, cuda"):
        engine.start(None, device="tpu")


def test_tensor_of_read_only_memory():
    array = np.arange(6, dtype="int16")
    array.flags.writeable = False
    np.testing.assert_array_equal(np.from_dlpack(engine.tensor(array)), array)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (1000,)])
@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "bfloat16", "float64"])
def test_empty_is_aligned(shape, dtype):
    held = [engine.empty(shape, dtype) for _ in range(5)]
    assert all(t.data_ptr() % 64 == 0 for t in held)
    assert (held[0].shape, str(held[0].dtype)) == (shape, dtype)


def test_tensor_shares_memory_even_read_only():
    array = np.arange(6, dtype="int16")
    for writeable in (True, False)[:NUMPY]:
        array.flags.writeable = writeable
        assert engine.tensor(array).data_ptr() == array.ctypes.data
    tensor = engine.tensor(array)
    assert engine.tensor(tensor) is tensor


def test_tensor_of_a_producer_that_knows_no_versions():
    class Old:
        def __dlpack__(self, stream=None):
            return np.arange(3.0).__dlpack__()

    assert engine.tensor(Old()).shape == (3,)


def test_copy_view_and_span():
    array = np.arange(12, dtype="float32")
    copied = engine.copy(engine.tensor(array), engine.empty((12,), "float32"))
    array[:] = 0
    viewed = engine.view(copied, (3, 4), "int32")
    expected = np.arange(12, dtype="float32").view("int32").reshape(3, 4)
    np.testing.assert_array_equal(np.from_dlpack(viewed), expected)
    assert engine.span(viewed) == (copied.data_ptr(), 48)
