import re

import pytest
from tvm import s_tir, te

from tests.cuda.kernels import ARCHS, needs_nvrtc, source
from tvm_sparse.errors import SparseError, UnsupportedError
from tvm_sparse.schedules.cuda import nvrtc

KERNEL = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
TRAITS = "cuda/std/type_traits"


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHS)
def test_machine_code(arch):
    assert nvrtc.compile_source(KERNEL, arch)[:4] == b"\x7fELF"


@needs_nvrtc
def test_virtual_architecture_gives_ptx():
    text = nvrtc.compile_source(KERNEL, "compute_90").decode()
    assert re.search(r"\.visible \.entry twice", text)


@needs_nvrtc
def test_errors_hold_the_log():
    with pytest.raises(SparseError, match="undefined"):
        nvrtc.compile_source("__global__ void f() { nothing(); }", "sm_90")


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: None)
    monkeypatch.setattr(nvrtc.shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'tvm-sparse\[cuda\]'"):
        nvrtc.compile_source(KERNEL, "sm_90")


def test_nvcc_is_asked_where_nvrtc_is_missing(monkeypatch, tmp_path):
    stub = tmp_path / "nvcc"
    stub.write_text('#!/bin/sh\nfor a; do [ "$last" = -o ] && echo "$*" > "$a"; last="$a"; done\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: None)
    command = nvrtc.compile_source(KERNEL, "sm_90").decode()
    assert "--cubin" in command
    assert "-arch=sm_90" in command


@needs_nvrtc
def test_the_header_of_type_traits_is_read_only_where_it_is_used():
    """NVRTC takes two seconds for it, which TVM includes above all kernels."""
    block = f"#include <{TRAITS}>\nnamespace std {{ using cuda::std::is_same_v; }}\n"
    using = KERNEL + " static_assert(std::is_same_v<int, int>);"
    assert TRAITS not in nvrtc._without_traits(block + KERNEL)
    assert nvrtc._without_traits(block + using) == block + using
    assert nvrtc.compile_source(block + using, "compute_90")
    x = te.placeholder((64,), "float16", "X")
    y = te.compute((64,), lambda i: x[i] + x[i], "Y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    schedule.bind(schedule.get_loops("Y")[0], "threadIdx.x")
    generated = source(schedule.mod["main"], "sm_90")
    assert TRAITS in generated
    assert TRAITS not in nvrtc._without_traits(generated)
