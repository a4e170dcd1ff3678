import importlib.metadata

import pytest
from packaging.requirements import Requirement

from tvm_sparse.cli import checks


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
