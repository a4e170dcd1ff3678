"""One HTML file that opens offline: every decision with its reason, every kernel with its time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_sparse.kernel import GENERIC, Kernel, slow_phrases
from tvm_sparse.profile import random_inputs
from tvm_sparse.report.layers import layer_rows
from tvm_sparse.report.page import page
from tvm_sparse.targets import parse_target

if TYPE_CHECKING:
    from tvm_sparse.compiler import Library


def write(library: Library, path: Path) -> None:
    """Profile ``library`` on random inputs, if its code runs here, and write its report."""
    kernels = library.kernels
    if parse_target(library.target).runs_here and library.target.kind.name == "llvm":
        kernels = library.profile(*random_inputs(library.inputs, library.bounds))
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
        layers=layer_rows(library.decisions, kernels),
        slow=slow_phrases(kernels),
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
