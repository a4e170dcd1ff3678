"""Pick the fastest candidate of a layer, dense where the gain may be noise, and say why."""

from __future__ import annotations

from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.decisions import DENSE

MARGIN = 1.03
"""How many times faster than dense a format must be measured: less may be noise."""


def pick(candidates: list[Candidate], times: dict[str, float]) -> tuple[Candidate, str]:
    """Return the fastest candidate and why, ``""`` if there is one only.

    The direct sum stays unless Winograd's beats it by the margin, and these two unless a
    format does.
    """
    if len(candidates) == 1:
        return candidates[0], ""
    if not times:
        return _pick_modelled(candidates)
    fastest = min(candidates, key=lambda c: times[c.name])
    best, *others = [c for c in candidates if c.name in DENSE] or [fastest]
    for other in (*others, fastest):
        if times[best.name] >= MARGIN * times[other.name]:
            best = other
    rest = ", ".join(f"{c.name} {times[c.name]:.1f} us" for c in candidates if c is not best)
    noise = f" (gains below {MARGIN - 1:.0%} may be noise)" if best is not fastest else ""
    return best, f"measured {times[best.name]:.1f} us against {rest}{noise}"


def _pick_modelled(candidates: list[Candidate]) -> tuple[Candidate, str]:
    """Return the candidate with the least modelled cost and why; ties go to the dense one."""
    best = min(candidates, key=lambda c: c.cost)
    dense = min((c for c in candidates if c.name in DENSE), key=lambda c: c.cost, default=best)
    if best is not dense and dense.cost < best.margin * best.cost:
        gain = f"{best.name} is modelled {dense.cost / best.cost:.2f} times as fast"
        return dense, f"{gain}: less than {best.margin} may be an error of the model"
    return best, f"modelled {best.cost:.2f} times the dense time (not measured)"
