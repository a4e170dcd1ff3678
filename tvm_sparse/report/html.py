"""One HTML file that opens offline: every decision with its reason, every kernel with its time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_sparse.comparison.programs import inputs_for
from tvm_sparse.report.page import page
from tvm_sparse.schedules.cpu.generic import GenericRule
from tvm_sparse.schedules.cuda.generic import REST
from tvm_sparse.targets import parse_target

if TYPE_CHECKING:
    from tvm_sparse.compiler import Library
    from tvm_sparse.profile import Kernel

GENERIC = frozenset(rule.name for rule in (GenericRule(), *REST))
"""Schedule rules that take what no operator's own rule takes: the leftovers that a report lists."""


def write(library: Library, path: Path) -> None:
    """Profile ``library`` on random inputs, if its code runs here, and write its report."""
    kernels = library.kernels
    if parse_target(library.target).runs_here and library.target.kind.name == "llvm":
        kernels = library.profile(*inputs_for(library.inputs))
    path.write_text(render(library, kernels, f"Report of {path.stem}"), encoding="utf-8")


def render(library: Library, kernels: list[Kernel], title: str = "tvm-sparse report") -> str:
    """Return the report of a compiled model as HTML.

    Parameters
    ----------
    library
        What was compiled.
    kernels
        Its kernels in call order, with times as :meth:`Library.profile` gives them, or without
        (``library.kernels``, times zero) when it cannot run here.
    title
        Heading of the page.
    """
    total = sum(k.us for k in kernels)
    return page(
        "compiled.html",
        title=title,
        target=str(library.target),
        nbytes=library.nbytes,
        decisions=list(library.decisions),
        parts=library.decisions.parts,
        costs=library.decisions.costs,
        kernels=_bars(kernels, total),
        total=total,
        leftovers=[k for k in kernels if k.rule is None or k.rule in GENERIC],
    )


def _bars(kernels: list[Kernel], total: float) -> list[dict[str, Any]]:
    """Return each kernel with the left edge and width of its bar, in percent of all time."""
    rows, before = [], 0.0
    for kernel in kernels:
        fraction = 100 * kernel.us / total if total else 0.0
        rows.append({"kernel": kernel, "left": before, "width": fraction})
        before += fraction
    return rows
