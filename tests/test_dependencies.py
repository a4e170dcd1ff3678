"""Whatever is imported is a declared dependency, or of an extra that is asked for by name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import declared

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
COMPILER = ("tvm_sparse", "frontends", "schedules")
RUNTIME = ("python/tvm_sparse_runtime",)
EMULATOR = ("emulator/tvm_sparse_emulator",)
FOLDERS = {"tvm-sparse": ROOT, "tvm-sparse-runtime": ROOT / "python"}
FOLDERS["tvm-sparse-emulator"] = ROOT / "emulator"
LEAVES = ("demo.", "emulation.", "frontends.onnx", "report.")
FREE = {"torch"}
"""What the runtime has to do with only where the user has imported it."""


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def dependencies(name: str) -> list[str]:
    """Return what an installation of the distribution asks for."""
    if name != "tvm-sparse":
        return list(project(FOLDERS[name])["project"]["dependencies"])
    own = dependencies("tvm-sparse-runtime")
    template = project(ROOT)["tool"]["scikit-build"]["metadata"]["dependencies"]["result"]
    return [*own, *(r for r in template if not r.startswith("tvm-sparse-runtime"))]


def extras(name: str) -> list[str]:
    found = project(FOLDERS[name])["project"]["optional-dependencies"].values()
    return [r for extra in found for r in extra if not r.startswith("tvm-sparse[")]


def imported(folders: tuple[str, ...]) -> Iterator[tuple[Path, str, bool]]:
    """Yield file, top-level name and whether the import runs with the module itself."""
    for path in (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                plain = isinstance(node, ast.ImportFrom) and not node.level
                names = [node.module or ""] if plain else []
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and not top.startswith("tvm_sparse"):
                    yield path, top, node in tree.body


@pytest.mark.grid
@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("tvm-sparse", COMPILER),
        ("tvm-sparse-runtime", RUNTIME),
        ("tvm-sparse-emulator", EMULATOR),
    ],
)
def test_every_import_is_declared(name, folders):
    own = set(declared.modules_of(dependencies(name)))
    compared = {"openvino", "torch_tensorrt"}  # by `bench`, where they are installed
    optional = {*declared.modules_of(extras(name)), *compared} | (FREE if "run" in name else set())
    found = list(imported(folders))
    assert len(found) > 2
    undeclared = {(str(path), top) for path, top, _ in found if top not in own | optional}
    assert undeclared == set()


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """Both packages beside the dependencies that they declare, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    declared.link(declared.closure(dependencies("tvm-sparse")), folder)
    declared.link_ours(ROOT, folder)
    return folder


def test_every_module_can_be_imported_without_extras(bare):
    missing = declared.missing_modules(bare)
    own = {"tvm_sparse_emulator"}  # an editable installation does not tell its packages
    assert set(missing.values()) <= {*declared.modules_of(extras("tvm-sparse")), *own}
    # What needs an extra is a leaf, which is imported once the extra has been asked for.
    places = {name.removeprefix("tvm_sparse.") for name in missing}
    assert {p for p in places if not p.startswith(LEAVES)} == set()


COMMANDS = """
import contextlib, io, sys
from tvm_sparse.cli.app import app
for words in (["doctor"], ["compile", "x.onnx", "-o", "x.tvms"], ["tune", "x.pt2"], ["demo"]):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            app(words, standalone_mode=False)
        except BaseException as error:
            print(type(error).__name__)
    print("tvm-sparse", words[0], "|", " ".join(text.getvalue().split()))
"""


@pytest.fixture(scope="module")
def told(bare) -> dict[str, str]:
    """What commands and functions say in one process."""
    (bare / "x.onnx").touch()
    done = declared.run(bare, "-c", COMMANDS + CALLS)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(" | ") for line in done.stdout.splitlines())


def test_commands_say_which_extra_they_need(told):
    assert not any("No module named" in text for text in told.values())
    assert "nothing stands in the way" in told["tvm-sparse doctor"]
    assert "pip install 'tvm-sparse[onnx]'" in told["tvm-sparse compile"]
    assert "pip install 'tvm-sparse[demo]'" in told["tvm-sparse demo"]


CALLS = """
import torch
import tvm_sparse as ts
from tvm_sparse import testing
from tvm_sparse.compat.deepsparse import Engine
from tvm_sparse.tuning.remote import Tracker, _count_servers
x, model = torch.ones(1, 4), torch.nn.Linear(4, 4).eval()
calls = {
    "load": lambda: ts.load("x.onnx"),
    "compile": lambda: ts.compile("x.onnx"),
    "shaped": lambda: ts.compile("x.onnx", (x,)),
    "inspect": lambda: ts.inspect("x.onnx"),
    "engine": lambda: Engine("x.onnx"),
    "quantize": lambda: ts.quantize(model, [(x,)]),
    "tune": lambda: ts.tune(model, (x,)),
    "emulate": lambda: testing.emulate,
    "tracker": lambda: _count_servers(Tracker("localhost", 9190, "key"), None),
}
for name, call in calls.items():
    try:
        print(name, "|", call())
    except ts.InputError as error:
        print(name, "|", error)
"""


def test_functions_say_which_extra_they_need(told):
    wanted = {
        **dict.fromkeys(("load", "compile", "shaped", "inspect", "engine"), "onnx"),
        **{"quantize": "quantize", "tune": "tune", "emulate": "emulator", "tracker": "rpc"},
    }
    assert {name for name in told if not name.startswith("tvm-sparse")} == wanted.keys()
    for name, extra in wanted.items():
        assert f"pip install 'tvm-sparse[{extra}]'" in told[name]
