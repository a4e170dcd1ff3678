"""Write docs/design/passes.md: every pass in order, with the first sentence of its docstring.

    python tools/passes_page.py

A test holds the page to the code.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.passes import pipeline
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "design" / "passes.md"
TARGETS = {"CPUs": "cpu:x86-64-v4", "NVIDIA GPUs": "cuda:sm_90"}
PHASES = {
    "1 Canonicalise": "Named constants, no batch norm, no masks, one layout.",
    "2 Lower": "Contractions become our operators, the rest TVM's definitions, and all is fused.",
    "3 Schedule": "How each function runs. Weights leave the code.",
    "4 Finalise": "Relax becomes virtual machine code, with memory planned.",
}
ROLE = re.compile(r":[a-z]+:`~?\.?([^`]*)`")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    lines = [
        "# The passes, in order",
        "",
        "`python tools/passes_page.py` writes this page from `pipeline.py`, `on_cpus.py` and",
        "`on_gpus.py` in `tvm_sparse/passes`. [Why in that order](graph.md).",
        "`TVM_SPARSE_DUMP=folder` writes the module after each pass. `tvm-sparse passes` runs",
        "a list of them, or all but some. Passes without file: TVM's.",
        "",
    ]
    for device, target in TARGETS.items():
        lines += [f"## {device}", ""]
        for (phase, meaning), passes in zip(PHASES.items(), _phases(target), strict=True):
            lines += [
                f"**{phase}.** {meaning}",
                "",
                "| pass | file | what it does |",
                "|---|---|---|",
            ]
            lines += [*map(_row, passes), ""]
    return "\n".join(lines)


def _phases(target: str) -> Iterator[list[Any]]:
    """Yield the passes of each phase for a target, for two threads wherever this runs."""
    os.environ["TVM_NUM_THREADS"] = "2"
    found = parse_target(target).target
    chooser = Chooser(found, ts.Config(), Decisions())
    yield pipeline.canonicalise({}, 1)
    yield pipeline.lower(chooser)
    yield pipeline.schedule(found, {})
    yield pipeline.finalise(found)


def _row(step: Any) -> str:
    kind, name = type(step), step.info.name
    if not kind.__module__.startswith("tvm_sparse."):
        return f"| `{name}` | | |"
    file = Path(inspect.getsourcefile(kind) or "").resolve().relative_to(ROOT).as_posix()
    told = ROLE.sub(r"`\1`", " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split()))
    return f"| `{name}` | `{file}` | {told.replace('``', '`').replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    main()
