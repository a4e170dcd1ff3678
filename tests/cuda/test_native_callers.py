"""Callers in C: what they get from a program for GPUs, and where and when its work runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.test_two_four_library import Perceptron, pruned
from tests.emulation.exact import sample
from tests.runtime import native
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import environment
from tvm_sparse.program.refresh import refresh
from tvm_sparse_runtime import config

pytestmark = needs_nvrtc

TARGET = "cuda:sm_90"
CALLS = """
import ctypes, json, os
from pathlib import Path
import numpy as np
from tests.runtime import native

log = Path(os.environ["FAKE_CUDA_LOG"])
sections, errors = [], []
c = native.library()
c.tvm_sparse_run_on.argtypes = [
    native.Handle, ctypes.c_void_p, ctypes.POINTER(native.Tensor), ctypes.c_size_t,
    ctypes.POINTER(native.Handle),
]
status, library = native.opened(Path({path!r}))
assert status == native.OK, native.last_error()
host = np.ones((17, 48), "float32")
shape = (ctypes.c_int64 * 2)(*host.shape)

# The stand-in's memory of the GPU is memory of the host; this piece begins on 64 bytes.
raw = np.zeros(host.nbytes + 64, "u1")
start = raw.ctypes.data + -raw.ctypes.data % 64

def tensor(data, device):
    return native.Tensor(b"float32", 2, shape, data, device)

def call(stream, value):
    before, outputs = len(log.read_text()), native.Handle()
    status = c.tvm_sparse_run_on(library, stream, ctypes.byref(value), 1, ctypes.byref(outputs))
    sections.append(log.read_text()[before:].splitlines())
    if status != native.OK:
        errors.append(native.last_error())
        return None
    device = c.tvm_sparse_outputs_get(outputs, 0).contents.device
    c.tvm_sparse_outputs_free(outputs)
    return device

x, y = tensor(start, 1), tensor(host.ctypes.data, 0)
{calls}
print(json.dumps([sections, errors]))
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """Two layers, and what they give for one input."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    x = torch.randn(17, 48)
    library = ts.compile(model.eval(), (x,), target=TARGET, config=ts.Config(measure=False))
    path = library.export(tmp_path_factory.mktemp("artifact") / "small.tvms", ptx=True)
    return path, x.numpy(), model(x).detach().numpy()


@pytest.fixture
def called(artifact, fake_cuda, monkeypatch):
    """Return the lines of the log of each call in C, and what was refused."""
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    return lambda *calls: fake_cuda.run(CALLS.format(path=str(artifact[0]), calls="\n".join(calls)))


def on_streams(lines):
    """Return the stream of each kernel, copy and wait that a call asked for."""
    split = [line.split(maxsplit=2) for line in lines if line.startswith("stream ")]
    return [(int(number), what) for _, number, what in split]


def computed(path, x, place, **variables):
    """Return what the program without Python computes of the array ``x``."""
    np.save(place / "x.npy", x)
    outer = native.environment()
    own = environment(parse_target(TARGET).target)
    places = f"{own['LD_LIBRARY_PATH']}:{outer['LD_LIBRARY_PATH']}"
    command = [config.place("program"), path, "--input", "x.npy", "--output", "y.npy"]
    command += ["--repeat", "2"]
    done = subprocess.run(
        command,
        env={**outer, **own, "LD_LIBRARY_PATH": places, **variables},
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return np.load(place / "y.npy")


def test_the_program_without_python_computes_it(artifact, tmp_path):
    path, x, wanted = artifact
    np.testing.assert_allclose(computed(path, x, tmp_path), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.grid
@pytest.mark.parametrize("there", [True, False])
def test_weights_that_a_library_compresses(there, tmp_path):
    model, x = pruned(Perceptron().half()), sample((2, 17, 48), torch.float16)
    config, log = ts.Config(force={"*": "cusparselt"}), tmp_path / "log"
    library = ts.compile(model, (x,), target=TARGET, config=config)
    path = library.export(tmp_path / "two_four.tvms", ptx=True)
    with torch.no_grad():
        wanted = model(x).numpy()
    assert np.array_equal(computed(path, x.numpy(), tmp_path), wanted)
    # With a log, the driver loads what is no PTX, too: all is the same otherwise.
    off = {} if there else {"TVM_SPARSE_CUSPARSELT": "off"}
    assert np.array_equal(
        computed(path, x.numpy(), tmp_path, FAKE_CUDA_LOG=str(log), **off), wanted
    )
    lines = log.read_text().splitlines()
    assert sum(line.endswith("compression") for line in lines) == (4 if there else 0)
    assert any(line.startswith("cusparselt ") for line in lines) == there


@pytest.mark.grid
def test_new_values_are_compressed_anew(tmp_path):
    model, x = pruned(Perceptron().half()), sample((2, 17, 48), torch.float16)
    config = ts.Config(force={"*": "cusparselt"}, refreshable=True)
    library = ts.compile(model, (x,), target=TARGET, config=config)
    path = library.export(tmp_path / "old.tvms", ptx=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
        wanted = model(x).numpy()
    save_file(model.state_dict(), tmp_path / "new.safetensors")
    refresh(path, tmp_path / "new.safetensors", tmp_path / "new.tvms")
    assert np.array_equal(computed(tmp_path / "new.tvms", x.numpy(), tmp_path), wanted)


def test_work_is_on_the_callers_stream_and_outputs_stay_there(called):
    sections, errors = called("for _ in range(4):", "    assert call(11, x) == 1")
    assert not errors
    work = on_streams(sections[-1])
    assert work
    assert {number for number, _ in work} == {11}
    assert not [line for line in sections[-1] if line.startswith(("wait for", "malloc"))]


def test_a_call_on_another_stream_waits_for_the_one_before(called):
    sections, errors = called("for stream in (11, 11, 11, 12):", "    call(stream, x)")
    assert not errors
    recorded, waited, *work = on_streams(sections[-1])
    assert recorded == (11, "record")
    assert waited == (12, "wait for the recorded")
    assert {number for number, _ in work} == {12}


def test_results_of_host_inputs_are_complete(called):
    sections, errors = called("for _ in range(4):", "    assert call(11, y) == 0")
    assert not errors
    lines = sections[-1]
    assert [line for line in lines if line.startswith("wait for")] == [
        "wait for the device: stream"
    ]
    assert on_streams(lines)[-1] == (0, "wait of the host")


def test_other_devices_are_refused(called):
    _, errors = called("y.device = 7", "call(None, y)")
    assert errors == ["input input: device 7; expected TVM_SPARSE_HOST or TVM_SPARSE_CUDA."]


def test_python_and_c_do_not_share_a_gpu(artifact, called):
    _, errors = called(
        "import tvm_sparse_runtime as rt",
        f"try: rt.load({str(artifact[0])!r})",
        "except rt.SparseRuntimeError as error: errors.append(str(error))",
    )
    assert errors[0].startswith("CUDA: C or C++ runs programs on the GPU in this process")


def test_another_gpu_is_refused(artifact, fake_cuda, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "70")
    said = fake_cuda.run(
        "import json; from pathlib import Path; from tests.runtime import native\n"
        f"print(json.dumps([native.opened(Path({str(artifact[0])!r}))[0], native.last_error()]))"
    )
    assert said[0] == native.BAD_ARTIFACT
    assert "made for sm_90, this GPU is sm_70" in said[1]


def test_a_refused_gpu_is_left_to_python(artifact, fake_cuda, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", "70")
    said = fake_cuda.run(
        "import json, os; from pathlib import Path; from tests.runtime import native\n"
        "from tvm_sparse_runtime import gpu\n"
        f"refused = native.opened(Path({str(artifact[0])!r}))[0]\n"
        "gpu.require(['sm_70'], 'here')\n"
        "print(json.dumps(refused))"
    )
    assert said == native.BAD_ARTIFACT
