"""The module after each pass, as text in a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm


@tvm.transform.module_pass(opt_level=0, name="Dump")
class Dump:
    """Write the module to ``path`` as TVMScript, without the values of large constants."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` as it is."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(mod.script() + "\n", encoding="utf-8")
        return mod


def dumped(passes: Sequence[Any], phase: str, directory: str | Path | None) -> list[Any]:
    """Return ``passes`` with a :class:`Dump` behind each, ``passes`` alone without a directory.

    The files are ``directory/phase/03-Simplify.py``.
    """
    if not directory:
        return list(passes)
    result = []
    for number, step in enumerate(passes, 1):
        path = Path(directory, phase, f"{number:02d}-{step.info.name}.py")
        result += [step, Dump(path)]
    return result
