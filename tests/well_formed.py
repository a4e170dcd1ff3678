"""A check of each module that a pass makes."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.ir.instrument import pass_instrument

UNFINISHED = frozenset({"Normalize", "NormalizeGlobalVar", "ResolveGlobals"})
"""Passes that make modules well-formed, a step at a time."""

CHECKED_LATER = frozenset(
    {
        "CanonicalizeTIRVariables",
        "CanonicalizeRelaxBindings",
        "CanonicalizeBindings",  # the dead code is taken away next
        "sequential",
    }
)
"""Steps of TVM's own after each rewrite, whose last one is checked."""


@pass_instrument
class WellFormed:
    """Checks what each pass made, once."""

    def __init__(self) -> None:
        self.checked: Any = None

    def run_after_pass(self, mod: tvm.IRModule, info: Any) -> None:
        """Check ``mod``, unless it is what was checked last."""
        if info.name in UNFINISHED | CHECKED_LATER or mod.same_as(self.checked):
            return
        if not relax.analysis.check_well_formed(mod):
            mod.show(name=f"After{info.name}")
            raise AssertionError(f"{info.name} made a module that is not well-formed")
        self.checked = mod
