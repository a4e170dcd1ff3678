"""Libraries of single functions: linked without the compiler driver, or archives to link later."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.target import Target

from tests.kernels import host
from tvm_sparse.tuning import build as subject
from tvm_sparse.tuning.build import build, suffix_for


@pytest.fixture(scope="module")
def module():
    x = te.placeholder((16,), "float32")
    func = te.create_prim_func([x, te.compute((16,), lambda i: te.exp(x[i]))])
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def outcome(path):
    out = tvm.runtime.tensor(np.zeros(16, np.float32))
    library = tvm.runtime.load_module(path)
    library["main"](tvm.runtime.tensor(np.ones(16, np.float32)), out)
    return out.numpy()


@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_what_is_built_runs(module, tmp_path, suffix):
    path = build(module, host(), str(tmp_path / f"library{suffix}"))
    assert outcome(path) == pytest.approx(np.full(16, np.e), rel=1e-6)


@pytest.mark.skipif(not shutil.which("ld"), reason="no ld")
def test_linking_needs_no_compiler(module, tmp_path, monkeypatch):
    from tvm.support import cc

    monkeypatch.setattr(cc, "create_shared", None)
    assert outcome(build(module, host(), str(tmp_path / "library.so")))[0] > 2


def test_without_a_linker_the_compiler_links(module, tmp_path, monkeypatch):
    monkeypatch.setattr(subject.shutil, "which", lambda _: None)
    assert outcome(build(module, host(), str(tmp_path / "library.so")))[0] > 2


def test_a_linker_that_fails_is_an_error(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        subject.link(str(tmp_path / "x.so"), [str(tmp_path / "none.o")])


def test_another_architecture_links_elsewhere():
    assert suffix_for(host()) == ".so"
    arm = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"})
    assert suffix_for(arm) == ".tar"
