"""Calls that are bound to the memory of their inputs: one graph, from Python and from C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.test_native_callers import on_streams
from tests.cuda.test_two_four_library import Perceptron, pruned
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import environment

pytestmark = needs_nvrtc

TARGET = "cuda:sm_90"
ROWS, WIDE = 17, 48


@pytest.fixture(scope="module")
def model():
    """Two layers of small integers, the first of which cuBLASLt is asked for."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(WIDE, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)
    model = torch.nn.Sequential(*layers).eval()
    for parameter in model.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape).float()
    return model


@pytest.fixture(scope="module")
def artifact(model, tmp_path_factory):
    shapes = ({0: torch.export.Dim("rows")},)  # with a limit, memory would be kept by the session
    library = ts.compile(
        model,
        (torch.zeros(ROWS, WIDE),),
        target=TARGET,
        dynamic_shapes=shapes,
        config=ts.Config(measure=False),
    )
    return library.export(tmp_path_factory.mktemp("artifact") / "small.tvms", ptx=True)


def inputs(count=3):
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, (ROWS, WIDE)).astype("float32") for _ in range(count)]


def wanted(model, arrays):
    with torch.no_grad():
        return [model(torch.from_numpy(x)).numpy() for x in arrays]


BOUND = """
import json, os, numpy
from pathlib import Path
import tvm_sparse_runtime as rt
from tvm_sparse_runtime import engine, gpu

log = Path(os.environ["FAKE_CUDA_LOG"])
library = rt.load({path!r})

def on_gpu(array):
    with gpu.turn("cuda"):
        return gpu.copy(engine.tensor(array), "cuda")

def fill(tensor, array):
    with gpu.turn("cuda"):
        gpu._copied(engine.tensor(numpy.array(array, "float32")), tensor, "cuda")

def read(tensor):
    with gpu.turn("cuda"):
        return numpy.from_dlpack(gpu.copy(engine.tensor(tensor), "cpu")).tolist()

def lines(call):
    before = len(log.read_text())
    call()
    return log.read_text()[before:].splitlines()

arrays = {arrays}
{calls}
"""


@pytest.fixture
def run(artifact, tmp_path, monkeypatch):
    """Run Python code in a process whose driver executes PTX; return what it prints as JSON."""
    from tests.cuda.conftest import FakeCuda

    for name, value in environment(parse_target(TARGET).target).items():
        monkeypatch.setenv(name, value)
    fake = FakeCuda(tmp_path / "cuda.log")

    def call(code, count=3):
        arrays = json.dumps([x.tolist() for x in inputs(count)])
        return fake.run(BOUND.format(path=str(artifact), arrays=arrays, calls=code))

    return call


def test_each_call_reads_what_the_inputs_hold_now(run, model):
    found = run(
        "x = on_gpu(numpy.array(arrays[0], 'float32')); bound = library.bind(x); found = []\n"
        "first = bound.outputs[0].data_ptr()\n"
        "for array in arrays:\n"
        "    fill(x, array); y = bound(); found.append(read(y))\n"
        "assert engine.tensor(y).data_ptr() == first\n"
        "print(json.dumps(found))"
    )
    np.testing.assert_array_equal(found, wanted(model, inputs()))


def test_neither_pytorch_nor_the_compiler_is_loaded(run):
    modules, files = run(
        "import sys; x = on_gpu(numpy.array(arrays[0], 'float32')); library.bind(x)(); library(x)\n"
        "maps = Path('/proc/self/maps').read_text()\n"
        "files = [name for name in ('libtorch', 'libtvm_compiler', 'nvrtc') if name in maps]\n"
        "print(json.dumps([sorted({'torch', 'tvm', 'tvm_sparse'} & sys.modules.keys()), files]))"
    )
    assert modules == files == []


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """A layer whose call takes memory for its output alone, as much as that between two layers."""
    layer = torch.nn.Linear(WIDE, 32).eval()
    config = ts.Config(measure=False, libraries=False)
    library = ts.compile(layer, (torch.zeros(ROWS, WIDE),), target=TARGET, config=config)
    return library.export(tmp_path_factory.mktemp("single") / "single.tvms", ptx=True)


def test_other_calls_between_do_not_touch_what_it_works_in(run, single, model):
    *kept, again, y = run(
        f"other = rt.load({str(single)!r})\n"
        "x = on_gpu(numpy.array(arrays[0], 'float32')); bound = library.bind(x)\n"
        "kept = [other.run(x)[0] for _ in range(8)]\n"
        "before = [*map(read, kept)]; fill(x, arrays[1]); y = read(bound())\n"
        "print(json.dumps([before, [*map(read, kept)], y]))"
    )
    np.testing.assert_array_equal(kept[0], again)
    np.testing.assert_array_equal(y, wanted(model, inputs())[1])


def test_it_outlives_its_library(run, model):
    (found,) = run(
        "import gc\n"
        "x = on_gpu(numpy.array(arrays[0], 'float32')); bound = library.bind(x)\n"
        "del library, x; gc.collect(); print(json.dumps([read(bound())]))"
    )
    np.testing.assert_array_equal(found, wanted(model, inputs(1))[0])


@pytest.mark.grid
def test_weights_that_a_library_compressed_outlive_their_library(run, tmp_path):
    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = pruned(Perceptron().half())

        def forward(self, x):
            return self.layers(x.half()).float()

    model, config = Halves(), ts.Config(force={"*": "cusparselt"})
    library = ts.compile(model, (torch.zeros(ROWS, WIDE),), target=TARGET, config=config)
    path = library.export(tmp_path / "two_four.tvms", ptx=True)
    found, calls = run(
        f"import gc; library = rt.load({str(path)!r})\n"
        "x = on_gpu(numpy.array(arrays[0], 'float32')); bound = library.bind(x); found = []\n"
        "del library; gc.collect(); said = []\n"
        "for array in arrays:\n"
        "    fill(x, array); said = lines(bound); found.append(read(bound()))\n"
        "print(json.dumps([found, said]))"
    )
    np.testing.assert_array_equal(found, wanted(model, inputs()))
    assert calls == ["stream 0 graph", "launch graph"]


def test_a_call_is_one_graph_on_the_stream_of_its_caller(run):
    first, second = run(
        "x = on_gpu(numpy.array(arrays[0], 'float32')); bound = library.bind(x); bound()\n"
        "def call(stream):\n"
        "    with engine.ffi().use_raw_stream(gpu._gpu(), stream): bound()\n"
        "print(json.dumps([lines(lambda: call(11)), lines(lambda: call(12))]))"
    )
    assert on_streams(first)[-1] == (11, "graph")
    assert on_streams(second) == [(11, "record"), (12, "wait for the recorded"), (12, "graph")]
    for said in (first, second):
        assert not [line for line in said if line.startswith(("wait for the device", "malloc"))]
        assert sum(line == "launch graph" for line in said) == 1
        assert not [line for line in said if re.match(r"stream \d+ kernel", line)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("numpy.zeros((17, 48), 'float32')", "lies on the host; expected memory of the GPU"),
        ("on_gpu(numpy.zeros((17, 40), 'float32'))", "expected 48 on axis 1"),
        ("on_gpu(numpy.zeros((17, 48), 'float16'))", "dtype float16"),
    ],
)
def test_what_cannot_be_bound_is_refused(run, value, words):
    said = run(
        f"try: library.bind({value})\nexcept rt.TensorError as error: print(json.dumps(str(error)))"
    )
    assert words in said


class Handing(torch.nn.Module):
    def forward(self, x):
        return x, x + 1


def test_a_program_that_hands_out_its_input_is_refused(run, tmp_path):
    config = ts.Config(measure=False)
    library = ts.compile(Handing(), (torch.zeros(ROWS, WIDE),), target=TARGET, config=config)
    path = library.export(tmp_path / "handing.tvms", ptx=True)
    said = run(
        f"library = rt.load({str(path)!r}); x = on_gpu(numpy.array(arrays[0], 'float32'))\n"
        "try: library.bind(x)\n"
        "except rt.SparseRuntimeError as error: print(json.dumps(str(error)))"
    )
    assert "bind: the call cannot be one CUDA graph" in said
    assert "hands out an input or a weight" in said


C = """
import ctypes, json
import numpy as np
from pathlib import Path
from tests.runtime import native

c = native.library()
pointer, tensors = ctypes.POINTER(native.Handle), ctypes.POINTER(native.Tensor)
c.tvm_sparse_bind.argtypes = [
    native.Handle, ctypes.c_void_p, tensors, ctypes.c_size_t, pointer
]
c.tvm_sparse_replay.argtypes = [native.Handle, ctypes.c_void_p]
c.tvm_sparse_bound_outputs.argtypes = [native.Handle]
c.tvm_sparse_bound_outputs.restype = native.Handle
c.tvm_sparse_bound_free.argtypes = [native.Handle]
status, library = native.opened(Path({path!r}))
assert status == native.OK, native.last_error()
arrays = {arrays}
shape = (ctypes.c_int64 * 2)(17, 48)
cudart, start = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert cudart.cudaMalloc(ctypes.byref(start), ctypes.c_size_t(17 * 48 * 4)) == 0
start = start.value

def fill(array):
    given = np.array(array, "f4")
    size = ctypes.c_size_t(given.nbytes)
    where, what = ctypes.c_void_p(start), given.ctypes.data_as(ctypes.c_void_p)
    assert cudart.cudaMemcpyAsync(where, what, size, 1, None) == 0

def bind(address, device=1):
    value, bound = native.Tensor(b"float32", 2, shape, address, device), native.Handle()
    status = c.tvm_sparse_bind(library, None, ctypes.byref(value), 1, ctypes.byref(bound))
    return (status, bound) if status == native.OK else (status, native.last_error())

{calls}
"""


@pytest.fixture
def run_c(artifact, tmp_path, monkeypatch):
    from tests.cuda.conftest import FakeCuda

    for name, value in environment(parse_target(TARGET).target).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    arrays = json.dumps([x.tolist() for x in inputs()])
    fake = FakeCuda(tmp_path / "cuda.log")
    return lambda code: fake.run(C.format(path=str(artifact), arrays=arrays, calls=code))


def test_from_c_it_is_the_same(run_c, model):
    found = run_c(
        "fill(arrays[0]); status, bound = bind(start); found = []\n"
        "assert status == native.OK, bound\n"
        "outputs = c.tvm_sparse_bound_outputs(bound)\n"
        "y = c.tvm_sparse_outputs_get(outputs, 0).contents\n"
        "assert y.device == 1 and list(y.shape[:2]) == [17, 8]\n"
        "for array in arrays:\n"
        "    fill(array)\n"
        "    assert c.tvm_sparse_replay(bound, 11) == native.OK, native.last_error()\n"
        "    value = np.frombuffer((ctypes.c_float * 136).from_address(y.data), 'f4')\n"
        "    found.append(value.reshape(17, 8).tolist())\n"
        "c.tvm_sparse_bound_free(bound); c.tvm_sparse_bound_free(None)\n"
        "print(json.dumps(found))"
    )
    np.testing.assert_array_equal(found, wanted(model, inputs()))


@pytest.mark.parametrize("given", ["start + 4", "start, 0"])
def test_from_c_inputs_that_would_be_copied_are_refused(run_c, given):
    status, said = run_c(f"fill(arrays[0]); print(json.dumps(bind({given})))")
    assert status == 2
    assert "would be copied; expected memory of the GPU" in said


def test_a_program_for_cpus_has_no_graph(tmp_path, model):
    x = torch.zeros(ROWS, WIDE)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    from tvm_sparse_runtime import SparseRuntimeError, load

    loaded = load(library.export(tmp_path / "cpu.tvms"))
    with pytest.raises(SparseRuntimeError, match="bind: a program for CPUs"):
        loaded.bind(x)


def test_a_program_that_waits_is_not_bound(run):
    """Behind a refusal, later calls run as before."""
    told, same = run(
        "import ctypes, tvm_ffi\n"
        "cuda, own = ctypes.CDLL('libcudart.so.13'), library._main\n"
        "def waiting(*arguments):\n"
        "    found = own(*arguments)\n"
        "    cuda.cudaStreamSynchronize(ctypes.c_void_p(tvm_ffi.get_raw_stream(gpu._gpu())))\n"
        "    return found\n"
        "x = on_gpu(numpy.array(arrays[0], 'float32')); before = read(library(x))\n"
        "library._main = tvm_ffi.convert(waiting)\n"
        "try:\n    library.bind(x)\nexcept rt.SparseRuntimeError as error:\n    told = str(error)\n"
        "library._main = own\n"
        "print(json.dumps([told, before == read(library.bind(x)())]))"
    )
    assert "cudaStreamEndCapture failed: 901" in told
    assert "expected a program that waits for nothing on the GPU" in told
    assert same
