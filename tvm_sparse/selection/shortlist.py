"""Which candidates of a layer may win: the others are not even compiled."""

from __future__ import annotations

from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.decisions import DENSE

BEHIND = 1.3
"""Modelled cost over the best candidate's beyond which a format is left out: the model orders
formats of one layer within some 20 %."""

BEHIND_ITS_LIKE = 1.1
"""The same over a format that runs the same loop nest: the model is off for both."""

MOST = 2
"""Formats of a layer that are measured; compiling them is what the choice takes time for."""


def shortlist(candidates: list[Candidate], reasons: list[str]) -> tuple[list[Candidate], list[str]]:
    """Leave out what is modelled far behind the best one, with the reason.

    The cheapest dense way stays in any case: gains are over it.
    """
    best = min(candidates, key=lambda c: c.cost)
    dense = min((c for c in candidates if c.name in DENSE), key=lambda c: c.cost)
    formats = sorted((c for c in candidates if c.name not in DENSE), key=lambda c: c.cost)[:MOST]
    near = [c.name for c in formats if not _behind_its_like(c, formats)]
    kept, reasons = [], list(reasons)
    for candidate in candidates:
        close = candidate.name in (*DENSE, *near) and candidate.cost <= BEHIND * best.cost
        if candidate is dense or close:
            kept.append(candidate)
        else:
            behind = f"{candidate.cost:.2g} times the dense time, {best.name} {best.cost:.2g}"
            reasons.append(f"{candidate.name} is modelled {behind}")
    return kept, reasons


def _behind_its_like(candidate: Candidate, others: list[Candidate]) -> bool:
    """Whether one of ``others`` runs the same loop nest and is modelled clearly faster."""
    return bool(candidate.nest) and any(
        other.nest == candidate.nest and candidate.cost > BEHIND_ITS_LIKE * other.cost
        for other in others
    )
