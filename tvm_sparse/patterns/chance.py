"""How likely a random mask looks as structured: bounds, as natural logarithms.

The random mask of all bounds is uniform over the masks with the same number of nonzeros.
"""

from __future__ import annotations

import math

LIMIT = -20.7
"""Structure is claimed where the log of its chance is below this (one in a thousand million)."""
SMALLEST = 1e-300
"""Chances below are stated as this."""


def probability(log: float) -> float:
    """Return ``exp(log)`` as a probability that is never stated as 0."""
    return min(1.0, math.exp(max(log, math.log(SMALLEST))))


def log_choose(n: float, k: float) -> float:
    """Return the log of the number of ways to choose ``k`` of ``n``."""
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def exceeding(cells: int, nonzeros: int, bank: int, keep: int) -> float:
    """Return the probability that a bank holds more than ``keep`` nonzeros (hypergeometric)."""
    first = max(keep + 1, bank - (cells - nonzeros))
    if first > min(bank, nonzeros):
        return 0.0
    log = (
        log_choose(nonzeros, first)
        + log_choose(cells - nonzeros, bank - first)
        - log_choose(cells, bank)
    )
    total = term = math.exp(log)
    for x in range(first, min(bank, nonzeros)):
        step = (nonzeros - x) / (x + 1) * (bank - x) / (cells - nonzeros - bank + x + 1)
        term *= step
        total += term
        if step < 1 and term < 1e-12 * total:
            break
    return min(total, 1.0)


def log_at_most(trials: int, hits: int, probability: float) -> float:
    """Bound the chance of at most ``hits`` in ``trials``, each hit with ``probability`` (Chernoff).

    Counts in disjoint banks of a mask with a fixed number of nonzeros are negatively associated,
    for which the bound for independent trials holds (Dubhashi and Ranjan, 1998).
    """
    rate = hits / trials if trials else 0.0
    if rate >= probability:
        return 0.0
    if probability >= 1:
        return -math.inf
    divergence = (1 - rate) * (math.log1p(-rate) - math.log1p(-probability))
    if hits:
        divergence += rate * math.log(rate / probability)
    return -trials * divergence


def log_block_gain(cells: int, nonzeros: int, blocks: int, occupied: int, inside: int) -> float:
    """Bound the chance that all nonzeros lie in ``occupied`` of ``blocks`` equal blocks.

    A union bound: ways to choose the blocks, times ways to place the nonzeros in their ``inside``
    weights, over ways to place them anywhere.
    """
    log = log_choose(blocks, occupied) + log_choose(inside, nonzeros) - log_choose(cells, nonzeros)
    return min(0.0, log)


def log_dispersion(banks: float, ratio: float) -> float:
    """Bound the chance that a chi-square sum over ``banks`` is ``ratio`` of its mean or less.

    Chernoff's bound; it rests on counts large enough to be nearly normal.
    """
    if ratio >= 1:
        return 0.0
    if ratio <= 0:
        return -math.inf
    return -banks / 2 * (ratio - 1 - math.log(ratio))
