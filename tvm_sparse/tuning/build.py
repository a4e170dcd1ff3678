"""Build one function in a worker: no tensor intrinsics to parse, no compiler driver to link."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target, codegen

from tvm_sparse.artifact.cubin import packing
from tvm_sparse.schedules.build import build_scheduled

SHARED, ARCHIVE = ".so", ".tar"


def build(module: tvm.IRModule, target: Target, path: str) -> str:
    """Build ``module`` (one function, ``main``) and write it to ``path``; return ``path``.

    A path that ends in ``.so`` becomes a shared library, ``.tar`` an archive of object files, which
    the machine that loads it links. Code for GPUs is machine code, no GPU is needed to make it.
    """
    built = build_scheduled(module, target)
    options: dict[str, Any] = packing(target)
    if path.endswith(SHARED) and shutil.which("ld"):
        options["fcompile"] = link
    built.export_library(path, **options)
    return path


def link(output: str, objects: list[str], **_: Any) -> None:
    """Link object files into a shared library: five times as fast as by way of the C++ compiler.

    What the objects need of the C library, the process that loads them has loaded already.
    """
    objects = [str(Path(o).resolve()) for o in objects]
    subprocess.run(["ld", "-shared", "-o", output, *objects], check=True, capture_output=True)


def suffix_for(target: Target) -> str:
    """Return the suffix to build with: objects, if this machine cannot link for ``target``."""
    here = codegen.llvm_get_system_triple()
    triple = str(target.attrs.get("mtriple") or here)
    return SHARED if _machine(triple) == _machine(here) else ARCHIVE


def _machine(triple: str) -> str:
    return triple.partition("-")[0]
