"""Names of TVM's operators are those of the TVM that is installed: another one never compares."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tvm
import tvm_ffi
from tvm.ir.transform import PassContext

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("frontends", "schedules", "tvm_sparse", "python", "benchmarks", "tests", "tools")
NAME = re.compile(r"(tirx?|prim|relax|s_tir)(\.\w+)+")

OTHERS = {"tirx.noalias", "tirx.is_scheduled", "relax.VMExecutable", "tirx.SplitHostDevice"}
"""Attributes of functions, a kind of module, and a pass."""


def names(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of operators in texts of ``folder``, and where each stands."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        parts = {id(part) for node in ast.walk(tree) for part in getattr(node, "values", ())}
        for node in ast.walk(tree):
            text = getattr(node, "value", None)
            if isinstance(node, ast.Constant) and isinstance(text, str) and id(node) not in parts:
                if NAME.fullmatch(text):
                    yield text, f"{path.relative_to(ROOT)}:{node.lineno}"


def known() -> set[str]:
    """Return the names of operators, options of passes and functions that TVM has."""
    functions = tvm_ffi.registry.list_global_func_names()
    return {*tvm.ir.Op.list_op_names(), *PassContext.list_configs(), *functions, *OTHERS}


def test_every_name_of_an_operator_is_known():
    wanted = known()
    found = [entry for source in SOURCES for entry in names(ROOT / source)]
    assert len(found) > 100
    assert not [entry for entry in found if entry[0] not in wanted]
