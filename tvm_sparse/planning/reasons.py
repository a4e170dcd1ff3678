"""Why a layer got its candidate: what the next steps would give and cost."""

from __future__ import annotations

from tvm_sparse.planning.tables import Tables


def reason(tables: Tables, numerics: str, layer: int, chosen: int, *, by_bytes: bool) -> str:
    """Return what the best step to less time would lose, and the best step back would gain.

    Parameters
    ----------
    layer, chosen
        Places in the tables.
    by_bytes
        Compare bytes instead of microseconds.
    """
    costs, losses = tables.costs[numerics], tables.losses[layer]
    table, unit = (costs.nbytes, "bytes") if by_bytes else (costs.us, "us")
    own = table[layer]
    sparser = [c for c in range(len(own)) if own[c] < own[chosen]]
    fuller = [c for c in range(len(own)) if own[c] > own[chosen] and losses[c] < losses[chosen]]

    def slope(c: int) -> float:
        return float((losses[c] - losses[chosen]) / (own[chosen] - own[c]))

    told = []
    if sparser:
        c = min(sparser, key=slope)
        gain, more = own[chosen] - own[c], max(0.0, losses[c] - losses[chosen])
        told.append(f"{tables.candidates[c]} saves {gain:.3g} {unit}, loses {more:.1e} more")
    if fuller:
        c = max(fuller, key=slope)
        cost, less = own[c] - own[chosen], losses[chosen] - losses[c]
        told.append(f"{tables.candidates[c]} takes {cost:.3g} {unit}, loses {less:.1e} less")
    return "; ".join(told) or f"the only one that takes {own[chosen]:.3g} {unit}"
