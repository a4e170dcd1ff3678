import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

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
        ask = {
            "runtime.GetDeviceAttr": lambda kind, index, what: answers[what],
            "tvm_sparse.taken_by_python": lambda: True,
        }
        monkeypatch.setattr(engine, "function", ask.__getitem__)

    return pretend


@pytest.mark.parametrize(
    ("version", "archs"),
    [
        ("9.0", ["sm_90"]),
        ("9.0", ["sm_90a"]),
        ("8.9", ["sm_80"]),
        ("8.6", ["sm_90", "sm_80"]),
        ("8.6", ["sm_80", "sm_90a"]),
        ("12.0", ["sm_120"]),
    ],
)
def test_gpus_that_fit(capability, version, archs):
    capability(version)
    gpu.require(archs, "model.tvms")


@pytest.mark.parametrize(
    ("version", "archs"),
    [
        ("9.0", ["sm_80"]),
        ("8.0", ["sm_86"]),
        ("9.1", ["sm_90a"]),
        ("8.9", ["sm_90a"]),
        ("12.0", ["sm_90", "sm_100"]),
    ],
)
def test_gpus_that_do_not(capability, version, archs):
    capability(version)
    name = "sm_" + version.replace(".", "")
    with pytest.raises(RuntimeArtifactError, match=f"model.tvms: made for .* this GPU is {name}"):
        gpu.require(archs, "model.tvms")


@pytest.mark.parametrize(
    ("version", "offered", "place"),
    [
        ("8.0", [["sm_80"], ["sm_90a"]], 0),
        ("8.9", [["sm_80"], ["sm_86"], ["sm_90"]], 1),
        ("9.0", [["sm_80"], ["sm_90a"]], 1),
        ("9.0", [["sm_90a"], ["sm_80", "sm_90"]], 0),
        ("9.0", [["sm_90"], ["sm_90a"]], 1),
        ("10.0", [["sm_90"], ["sm_80", "sm_100"], ["sm_90a"]], 1),
    ],
)
def test_the_best_of_several_programs(capability, version, offered, place):
    capability(version)
    assert gpu.best(offered, "model.tvms") == place


def test_a_gpu_that_none_of_several_programs_fits(capability):
    capability("7.5")
    found = "model.tvms: made for sm_80, sm_90a, this GPU is sm_75.*compile for cuda:sm_75"
    with pytest.raises(RuntimeArtifactError, match=found):
        gpu.best([["sm_80"], ["sm_90a"]], "model.tvms")


def test_a_gpu_that_c_has(capability, monkeypatch):
    capability("9.0")
    known = engine.function
    monkeypatch.setattr(
        engine,
        "function",
        lambda name: (lambda: False) if name.startswith("tvm_sparse.") else known(name),
    )
    with pytest.raises(SparseRuntimeError, match="C or C\\+\\+ runs programs on the GPU"):
        gpu.require(["sm_90"], "model.tvms")


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


class Streams:
    """Torch with tensors on a GPU, and what TVM is asked for; streams are numbers."""

    class Tensor:
        is_cuda, device = True, "cuda:0"

    def __init__(self, monkeypatch):
        self.current, self.asked = 5, []
        torch = types.SimpleNamespace(
            Tensor=self.Tensor,
            cuda=types.SimpleNamespace(current_stream=lambda device: self),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)

        def function(name):
            short = name.rpartition(".")[2].removeprefix("Device_")
            return lambda device, *streams: self.asked.append((short, *streams))

        monkeypatch.setattr(engine, "function", function)

    @property
    def cuda_stream(self):
        return self.current

    def environment(self):
        return engine.ffi().get_raw_stream(engine.ffi().device("cuda", 0))


@pytest.fixture
def streams(monkeypatch):
    engine.ffi()
    return Streams(monkeypatch)


def test_a_call_runs_on_the_stream_of_torch_behind_the_last_call(streams):
    turns = gpu.Turns()
    for streams.current, waits in ((5, [(0, 5)]), (5, []), (7, [(5, 7)])):
        streams.asked.clear()
        with turns.take([object(), streams.Tensor()]):
            assert streams.environment() == streams.current
        assert streams.asked == [("StreamSyncFromTo", *pair) for pair in waits]
        assert not streams.environment()
    with turns.take(), turns.take():
        assert not streams.environment()
    assert streams.asked[-1] == ("StreamSyncFromTo", 7, 0)


def test_the_stream_is_given_back_when_a_call_fails(streams):
    turns = gpu.Turns()
    with pytest.raises(ZeroDivisionError), turns.take([streams.Tensor()]):
        1 / 0
    assert not streams.environment()
    with turns.take([streams.Tensor()]):
        assert streams.asked == [("StreamSyncFromTo", 0, 5)]


def test_calls_of_several_threads_take_turns(streams):
    turns, inside = gpu.Turns(), []

    def call():
        with turns.take():
            inside.append(len(inside))
            time.sleep(0.002)
            inside.pop()
            return len(inside)

    with ThreadPoolExecutor(8) as threads:
        assert not any(future.result() for future in [threads.submit(call) for _ in range(40)])


def test_copies_are_ordered_with_the_stream_of_a_call(streams, monkeypatch):
    tensor = engine.tensor(np.zeros(4, "f4"))
    monkeypatch.setattr(engine, "empty", lambda *_: tensor)
    monkeypatch.setattr(
        engine, "function", lambda name: lambda *a: streams.asked.append((name, *a[1:]))
    )
    order, copies = "runtime.Device_StreamSyncFromTo", "runtime.TVMTensorCopyFromTo"
    with gpu.Turns().take([streams.Tensor()]):
        streams.asked.clear()
        gpu.copy(tensor, "cuda")
        gpu.copy(tensor, "cpu")
    names = [name for name, *_ in streams.asked]
    assert names == [order, copies, order, order, copies, "runtime.Device_StreamSync"]
    assert [a[1:] for a in streams.asked if a[0] == order] == [(5, 0), (0, 5), (5, 0)]


def test_work_on_the_host_takes_no_turn():
    assert gpu.turn("cpu") is gpu.turn("cpu")


def test_memory_for_inputs_of_the_host_is_kept(streams, monkeypatch):
    made = []

    def empty(shape, dtype, device):
        made.append(tuple(shape))
        return engine.tensor(np.zeros(shape, dtype))

    monkeypatch.setattr(engine, "empty", empty)
    staging = gpu.Staging()
    inputs = [engine.tensor(np.zeros(n, "f4")) for n in (4, 5)]
    with gpu.Turns().take():
        first, again = staging.moved(inputs, "cuda"), staging.moved(inputs, "cuda")
        assert [a is b for a, b in zip(first, again, strict=True)] == [True, True]
        assert made == [(4,), (5,)]
        longer, other = staging.moved([inputs[1], inputs[1]], "cuda")
    assert made[2:] == [(5,)] and other is first[1] and tuple(longer.shape) == (5,)
    assert staging.moved(inputs, "cpu") == inputs
