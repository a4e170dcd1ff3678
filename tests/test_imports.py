"""The rooms import one way only, and the runtime stands alone."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests import tools


@pytest.fixture(scope="module")
def staged_tree():
    return tools.load("staged_tree")


def test_the_tree_has_the_installed_layout(staged_tree, tmp_path):
    staged_tree.stage(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "tvm_sparse",
        "tvm_sparse_emulator",
        "tvm_sparse_runtime",
    }
    assert (tmp_path / "tvm_sparse" / "schedules" / "cpu" / "__init__.py").exists()
    assert (tmp_path / "tvm_sparse" / "frontends" / "__init__.py").exists()


def test_no_room_is_left_out_and_no_import_is_ignored(staged_tree):
    text = (tools.TOOLS.parent / "pyproject.toml").read_text("utf-8")
    rooms, api, *others = staged_tree.tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    named = {room for layer in rooms["layers"] for room in re.findall(r"\w+", layer)}
    sources = {name.split(".")[1] for name in api["source_modules"]}
    assert sources == named - {"__main__", "cli", "demo"}
    assert not any("ignore_imports" in contract for contract in (rooms, api, *others))


def test_contracts_hold(staged_tree, tmp_path, capfd):
    staged_tree.stage(tmp_path)
    done = staged_tree.run("imports", tmp_path)
    assert done.returncode == 0, capfd.readouterr().out


@pytest.mark.grid
@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tvm_sparse/patterns/wrong.py", "import tvm_sparse.formats"),
        ("tvm_sparse/ops/wrong.py", "import tvm_sparse"),
        ("tvm_sparse/pruning/wrong.py", "import tvm_sparse.schedules"),
        ("tvm_sparse_runtime/wrong.py", "import torch"),
        ("tvm_sparse_emulator/wrong.py", "import tvm_sparse.errors"),
        ("tvm_sparse/ops/wrong.py", "import tvm_sparse_emulator"),
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


CIRCLES = """
import sys
from graphlib import CycleError, TopologicalSorter
sys.meta_path = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path.insert(0, "")
from grimp import build_graph
graph = build_graph("tvm_sparse", cache_dir=None)
imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
try:
    TopologicalSorter(imports).prepare()
except CycleError as error:
    sys.exit(" <- ".join(error.args[1]))
"""


def circle(tree):
    """Return a circle of modules in ``tree``, empty if there is none."""
    done = subprocess.run(
        [sys.executable, "-c", CIRCLES], cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stderr


def test_no_modules_import_each_other_in_a_circle(staged_tree, tmp_path):
    staged_tree.stage(tmp_path)
    assert circle(tmp_path) == ""
    (tmp_path / "tvm_sparse/ops/first.py").write_text("import tvm_sparse.ops.second\n")
    (tmp_path / "tvm_sparse/ops/second.py").write_text(
        "def f():\n    import tvm_sparse.ops.first\n"
    )
    found = circle(tmp_path)
    assert "tvm_sparse.ops.first" in found and "tvm_sparse.ops.second" in found
