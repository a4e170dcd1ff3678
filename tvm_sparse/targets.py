"""What a user may call a target, and the TVM target that it means."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass

from tvm.target import Target, codegen

from tvm_sparse.errors import InputError


@dataclass(frozen=True)
class ResolvedTarget:
    """A TVM target, and whether its code runs on this machine."""

    target: Target
    runs_here: bool


def parse_target(name: str | Target) -> ResolvedTarget:
    """Return the target called ``name``.

    ``"cpu"`` is this machine with its real features; ``"cpu:<name>"`` another CPU of the same
    architecture in LLVM's spelling (``cpu:haswell``, ``cpu:skylake-avx512``); a TVM ``Target`` is
    taken as it is.
    """
    host = codegen.llvm_get_system_cpu()
    if isinstance(name, Target):
        mcpu = str(name.attrs.get("mcpu", ""))
        return ResolvedTarget(name, name.kind.name == "llvm" and mcpu in ("", host))
    kind, _, cpu = name.partition(":")
    if kind != "cpu":
        raise InputError(
            "target",
            f"'{name}' is unknown",
            "'cpu', 'cpu:<LLVM name>' or a TVM Target",
            "for this machine use --target cpu",
        )
    cpu = cpu or host
    known = [str(c) for c in codegen.llvm_get_cpu_archlist(_llvm(host))]
    if cpu not in known:
        close = difflib.get_close_matches(cpu, known, n=3)
        raise InputError(
            "target",
            f"LLVM knows no CPU '{cpu}'",
            "an LLVM CPU name",
            f"did you mean {', '.join(close)}" if close else "see `llc -mcpu=help`",
        )
    return ResolvedTarget(_llvm(cpu), cpu == host)


def _llvm(cpu: str) -> Target:
    triple = codegen.llvm_get_system_triple()
    return Target(
        {"kind": "llvm", "mcpu": cpu, "mtriple": triple, "num-cores": os.cpu_count() or 1}
    )
