"""The rows of a report: every contraction with its fraction of the time, ours or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse.selection.decisions import Decision

Row = tuple[Decision, float | None]
"""A contraction, and its fraction of the time where that was measured."""


def layer_rows(decisions: Iterable[Decision], kernels: Sequence[Kernel]) -> list[Row]:
    """Return a row for each decision, then one for each contraction that nobody decided on.

    Those read no weight (products of two activations), one without a name, or one whose zeros no
    format leaves out (experts).
    """
    decided = list(decisions)
    names = {d.layer for d in decided}
    others = {k.function: k for k in kernels if k.contraction and k.layer not in names}
    rows = [(d, _fraction(kernels, [k for k in kernels if k.layer == d.layer])) for d in decided]
    for name, kernel in others.items():
        same = [k for k in kernels if k.function == name]
        rows.append((_undecided(kernel), _fraction(kernels, same)))
    return rows


def _fraction(kernels: Sequence[Kernel], some: Sequence[Kernel]) -> float | None:
    total = sum(k.us for k in kernels)
    return sum(k.us for k in some) / total if total else None


def _undecided(kernel: Kernel) -> Decision:
    made = "an operator of ours" if kernel.ours else "TVM's own: no operator of ours"
    weight = "not examined" if kernel.layer else "no weight"
    why = "no format leaves out its zeros" if kernel.layer else "no weight to store"
    return Decision(kernel.layer, kernel.function, (), 0.0, weight, "dense", f"{why}; {made}")
