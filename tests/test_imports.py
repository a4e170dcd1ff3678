"""The rooms import one way only, and the runtime stands alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "staged_tree.py"


@pytest.fixture(scope="module")
def staged_tree():
    spec = importlib.util.spec_from_file_location("staged_tree", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tree_has_the_installed_layout(staged_tree, tmp_path):
    staged_tree.stage(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"tvm_sparse", "tvm_sparse_runtime"}
    assert (tmp_path / "tvm_sparse" / "schedules" / "cpu" / "__init__.py").exists()
    assert (tmp_path / "tvm_sparse" / "frontends" / "__init__.py").exists()


def test_contracts_hold(staged_tree, tmp_path, capfd):
    staged_tree.stage(tmp_path)
    done = staged_tree.run("imports", tmp_path)
    assert done.returncode == 0, capfd.readouterr().out


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tvm_sparse/patterns/wrong.py", "import tvm_sparse.formats"),
        ("tvm_sparse/ops/wrong.py", "import tvm_sparse"),
        ("tvm_sparse/pruning/wrong.py", "import tvm_sparse.schedules"),
        ("tvm_sparse_runtime/wrong.py", "import torch"),
        ("tvm_sparse_runtime/wrong.py", "import tvm_sparse.errors"),
    ],
)
def test_a_wrong_import_breaks_a_contract(staged_tree, tmp_path, capfd, module, line):
    staged_tree.stage(tmp_path)
    (tmp_path / module).write_text(line + "\n", encoding="utf-8")
    assert staged_tree.run("imports", tmp_path).returncode == 1
    importer = module.removesuffix(".py").replace("/", ".")
    imported = line.removeprefix("import ")
    assert f"{importer} -> {imported}" in capfd.readouterr().out
