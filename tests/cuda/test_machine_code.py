import pytest
import tvm_ffi

from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.cuda import machine_code as mc

KERNEL = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
FAT_BINARY = bytes.fromhex("50ed55ba")


@needs_nvrtc
def test_one_architecture_is_a_cubin():
    form, code = mc.machine_code(KERNEL, ["sm_80"])
    assert (form, code[:4]) == ("cubin", b"\x7fELF")


@needs_nvrtc
def test_several_are_a_fat_binary():
    form, code = mc.machine_code(KERNEL, ["sm_90", "sm_80"])
    assert (form, code[:4]) == ("fatbin", FAT_BINARY)


@needs_nvrtc
@pytest.mark.parametrize(
    ("archs", "text"), [(["sm_80", "sm_90a"], "compute_80"), (["sm_90a", "sm_90"], "compute_90")]
)
def test_later_gpus_get_what_is_portable(archs, text, monkeypatch):
    compiled, compile_source = [], mc.compile_source

    def listening(source, arch):
        compiled.append(arch)
        return compile_source(source, arch)

    monkeypatch.setattr(mc, "compile_source", listening)
    assert mc.machine_code(KERNEL, archs)[1][:4] == FAT_BINARY
    assert compiled == [*archs, text]


@needs_nvrtc
def test_without_nvfatbin(monkeypatch):
    from cuda.bindings import nvfatbin

    def missing():
        raise RuntimeError("libnvfatbin.so not found")

    monkeypatch.setattr(nvfatbin, "version", missing)
    with pytest.raises(UnsupportedError, match="or name one architecture"):
        mc.machine_code(KERNEL, ["sm_80", "sm_90"])


def test_tvm_compiles_as_we_do_and_then_as_before(monkeypatch):
    monkeypatch.setattr(mc, "machine_code", lambda code, archs: ("cubin", f"{archs}".encode()))
    before = tvm_ffi.get_global_func(mc.CALLBACK)
    with mc.our_compiler(["sm_90"]):
        assert tvm_ffi.get_global_func(mc.CALLBACK)("source") == b"['sm_90']"
    assert tvm_ffi.get_global_func(mc.CALLBACK).same_as(before)


IN_PROCESS = """
import json, torch, tvm_sparse as ts
model, x = torch.nn.Sequential(torch.nn.Linear(64, 10)).eval(), torch.zeros(2, 64)
library = ts.compile(model, (x,), target="cuda:sm_90")
print(json.dumps([list(library(x).shape), list(library(x).shape)]))
"""


@needs_nvrtc
def test_with_a_driver_a_library_runs_in_the_process_that_made_it(fake_cuda):
    assert fake_cuda.run(IN_PROCESS) == [[2, 10], [2, 10]]
    assert [words[1] for words in fake_cuda.lines("load")] == ["cubin"]
    assert len(fake_cuda.launches()) == 2
