"""A compiled program kept as it was before it ran: LLVM changes the code that it runs in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm.runtime.executable import Executable


class Pristine:
    """Gives the same program however often the one that it was made of has run.

    Parameters
    ----------
    executable
        What ``tvm.compile`` returned; nothing of it may have run yet.
    """

    def __init__(self, executable: Any) -> None:
        self._program = _written(executable.mod, "program")
        self._imports = [
            _written(module, "code.bc") if module.kind == "llvm" else module
            for module in executable.mod.imports
        ]
        self._behind = [list(module.imports) for module in executable.mod.imports]

    def executable(self) -> Executable:
        """Return a new executable, equal to the first one."""
        program = _loaded("relax.VMExecutable", self._program, ())
        for kept, behind in zip(self._imports, self._behind, strict=True):
            module = _loaded("ll", kept, ("ll",)) if isinstance(kept, bytes) else kept
            if module is not kept:
                for other in behind:
                    module.import_module(other)
            program.import_module(module)
        return Executable(program)


def _written(module: Any, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, name)
        module.write_to_file(str(path))
        return path.read_bytes()


def _loaded(kind: str, content: bytes, arguments: tuple[str, ...]) -> Any:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "module")
        path.write_bytes(content)
        load = tvm_ffi.get_global_func(f"ffi.Module.load_from_file.{kind}")
        return load(str(path), *arguments)
