import sys

import numpy as np
import pytest

from tvm_sparse_runtime import engine, gpu
from tvm_sparse_runtime.errors import RuntimeArtifactError, SparseRuntimeError


@pytest.fixture
def capability(monkeypatch):
    """Pretend that CUDA is there; set what the GPU is by calling this."""
    monkeypatch.setattr(gpu, "_load", lambda: None)

    def pretend(version):
        answers = {gpu._EXISTS: 0 if version is None else 1, gpu._COMPUTE_VERSION: version}
        ask = {"runtime.GetDeviceAttr": lambda kind, index, what: answers[what]}
        monkeypatch.setattr(engine, "function", ask.__getitem__)

    return pretend


@pytest.mark.parametrize(
    ("version", "archs"),
    [("9.0", ["sm_90"]), ("8.9", ["sm_80"]), ("8.6", ["sm_90", "sm_80"]), ("12.0", ["sm_120"])],
)
def test_gpus_that_fit(capability, version, archs):
    capability(version)
    gpu.require(archs, "model.tvms")


@pytest.mark.parametrize(
    ("version", "archs"), [("9.0", ["sm_80"]), ("8.0", ["sm_86"]), ("12.0", ["sm_90", "sm_100"])]
)
def test_gpus_that_do_not(capability, version, archs):
    capability(version)
    name = "sm_" + version.replace(".", "")
    with pytest.raises(RuntimeArtifactError, match=f"model.tvms: made for .* this GPU is {name}"):
        gpu.require(archs, "model.tvms")


def test_no_gpu(capability):
    capability(None)
    with pytest.raises(SparseRuntimeError, match="no GPU found"):
        gpu.require(["sm_90"], "model.tvms")


def test_no_driver(monkeypatch):
    def missing(name, mode=0):
        raise OSError(f"{name}: cannot open shared object file")

    engine.ffi()
    monkeypatch.setattr(gpu.ctypes, "CDLL", missing)
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SparseRuntimeError, match=r"libcudart.*install the driver"):
        gpu._load.__wrapped__()


def test_the_wheel_of_the_cuda_runtime_is_found(monkeypatch, tmp_path):
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    (tmp_path / "nvidia" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [n for n in sys.modules if n == "nvidia" or n.startswith("nvidia.")]:
        monkeypatch.delitem(sys.modules, name)
    opened = []

    def open_only_paths(name, mode=0):
        opened.append(name)
        if "/" not in name:
            raise OSError("not on the loader's path")

    monkeypatch.setattr(gpu.ctypes, "CDLL", open_only_paths)
    gpu._open_cudart()
    assert opened == ["libcudart.so.13", str(library)]


def test_host_tensors_stay_where_they_are():
    tensor = engine.tensor(np.arange(32, dtype="float32"))
    assert gpu.home(tensor) == "cpu"
    assert gpu.moved(tensor, "cpu") is tensor
