"""A stranger's way: CUDA code is compiled, executed and checked as the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.emulator.snippets import needs_nvrtc
from tvm_sparse_emulator import EmulatorError, __version__, compile_ptx
from tvm_sparse_runtime.version import __version__ as release

README = Path(__file__).resolve().parents[2] / "emulator" / "README.md"


@needs_nvrtc
def test_the_readmes_code_finds_the_race(capsys):
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    told = {}
    exec("\n".join(code), told)
    found = told["report"].findings
    assert {one.kind for one in found} == {"uninitialised", "race"}
    lines = told["broken"].splitlines()
    assert all(one.instruction.split() == lines[one.line - 1].split() for one in found)
    assert "race in reverse, line" in capsys.readouterr().out


@needs_nvrtc
def test_what_does_not_compile_is_told_with_the_compilers_log():
    with pytest.raises(EmulatorError, match="cannot compile for compute_80:"):
        compile_ptx('extern "C" __global__ void k() { missing(); }', "compute_80")
    with pytest.raises(EmulatorError, match="compute_1"):
        compile_ptx('extern "C" __global__ void k() {}', "compute_1")


@needs_nvrtc
def test_cudas_headers_are_found():
    source = "#include <cuda_fp16.h>\n#include <cuda/std/array>\n" + (
        'extern "C" __global__ void k(__half* x) { *x = __float2half(SCALE); }'
    )
    assert "cvt.rn.f16.f32" in compile_ptx(source, "compute_90a", flags=("-DSCALE=*(float*)x",))


def test_all_distributions_are_of_one_release():
    assert __version__ == release
