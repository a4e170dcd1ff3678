import importlib.metadata
import types

import pytest
from packaging.requirements import Requirement

from tvm_sparse.cli import checks
from tvm_sparse_runtime import libraries


@pytest.mark.parametrize(
    ("text", "status", "todo"),
    [
        ("numpy>=1.0", "ok", ""),
        ("numpy>=1000", "problem", "pip install 'numpy>=1000'"),
        ("no-such-package>=1", "problem", "pip install 'no-such-package>=1'"),
    ],
)
def test_packages_are_held_against_their_pins(text, status, todo):
    found = checks._package(Requirement(text))
    assert (found.status, found.todo) == (status, todo)


def test_an_extra_that_is_not_whole_is_named(monkeypatch):
    monkeypatch.setattr(
        importlib.metadata,
        "requires",
        lambda name: ["numpy", "no-such-package; extra == 'report'"],
    )
    (found,) = checks._extras()
    assert (found.status, found.found) == ("note", "not installed: report")


def test_without_a_compiler_it_is_a_problem(monkeypatch):
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    (found,) = checks._compiler()
    assert found.status == "problem"
    assert "CXX" in found.todo


def test_a_missing_folder_is_judged_by_the_one_above(tmp_path):
    assert checks._existing(tmp_path / "a" / "b") == tmp_path


def test_settings_are_shown_where_they_are_set(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    monkeypatch.delenv("TVM_SPARSE_DUMP", raising=False)
    assert [(f.check, f.found) for f in checks._settings()] == [("TVM_NUM_THREADS", "3")]


class Driver:
    """NVIDIA's driver, as far as it is asked."""

    def __init__(self, version):
        self.version = version

    def cuDriverGetVersion(self, place):
        place._obj.value = self.version


@pytest.mark.parametrize(
    ("driver", "status", "told", "todo"),
    [
        (Driver(13010), "ok", "takes CUDA 13.1", ""),
        (Driver(12080), "note", "takes CUDA 12.8", "a driver that takes CUDA 13"),
        (object(), "note", "does not tell its version", ""),
        (None, "note", "cannot be loaded", "install NVIDIA's driver"),
    ],
)
def test_the_driver_is_asked_for_its_version(driver, status, told, todo, monkeypatch):
    def load(name):
        if driver is None:
            raise OSError(name)
        return driver

    monkeypatch.setattr(checks.ctypes, "CDLL", load)
    (found,) = checks._driver()
    assert (found.status, told in found.found, todo in found.todo) == (status, True, True)


def test_libraries_that_programs_do_not_ask_are_named_with_their_versions(monkeypatch):
    wheels = [
        types.SimpleNamespace(metadata={"Name": name}, version=version)
        for name, version in (("nvidia-cusparselt-cu13", "0.8"), ("Torch_TensorRT", "2.9"))
    ]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: wheels)
    (found,) = checks._others()
    assert found.found == "TensorRT 2.9"


def test_libraries_that_programs_ask_are_named_with_what_they_compute(monkeypatch):
    there = {"cublaslt": libraries.Found("cuBLASLt", "/lib", "130000", "")}
    there["cudnn"] = libraries.Found("cuDNN", "", "", "not found: pip install nvidia-cudnn-cu13")
    there["cusparselt"] = libraries.Found("cuSPARSELt", "", "", "turned off")
    monkeypatch.setattr(libraries, "found", there.__getitem__)
    first, second, third = checks._libraries()
    assert (first.check, first.status, first.found) == ("cuBLASLt", "ok", "130000, /lib")
    assert (second.check, second.status, second.found) == ("cuDNN", "note", there["cudnn"].problem)
    assert second.todo.startswith("dense convolutions run by our own kernels on GPUs")
    assert (third.check, third.status) == ("cuSPARSELt", "note")
    assert third.todo.startswith("2:4 linear layers and 1x1 convolutions run by our own kernels")
