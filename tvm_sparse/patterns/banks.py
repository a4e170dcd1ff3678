"""Which bank sizes may explain a mask: every size is screened on a sample of rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tvm_sparse.patterns.chance import log_choose
from tvm_sparse.patterns.cost import Cost, index_bits, modelled

if TYPE_CHECKING:
    from tvm_sparse.patterns.scan import Scan

PROMISING = -7.0
"""Screened sizes stay where the log of their chance, estimated on the sample, is below this."""
CHEAPEST, LIKELIEST = 8, 4
IN_REGISTER = 64
"""Banks up to this many columns are looked up in registers; larger ones need a load a value."""


def likely_banks(scan: Scan) -> list[int]:
    """Return the bank sizes worth counting in full, the cheapest to store first."""
    banks = np.arange(2, scan.cols + 1)
    number, least, most, keep, beyond = scan.bank_sweep[2:].T
    density = scan.nonzeros / scan.cells
    deviation = np.sqrt(banks * density * (1 - density))
    above = (keep + 0.5 - banks * density) / (math.sqrt(2) * deviation)
    tail = np.array([0.5 * math.erfc(x) for x in above.tolist()])
    log = _divergence(number, beyond / np.maximum(number, 1), tail)
    promising = (log < PROMISING) | ((least == most) & (number > 1))
    candidates = banks[promising & (0 < keep) & (keep < banks)]
    at = candidates - 2
    bits = np.array([index_bits(bank) for bank in candidates.tolist()])
    price = keep[at] / candidates * (scan.itemsize + bits / 8)
    cheap = candidates[np.argsort(price, kind="stable")[:CHEAPEST]]
    likely = candidates[np.argsort(log[at], kind="stable")[:LIKELIEST]]
    return list(dict.fromkeys([*cheap.tolist(), *likely.tolist()]))


def tolerated(banks: int) -> int:
    """Return how many banks may break a near miss: 1 %, and up to three of a few banks."""
    return max(banks // 100, min(3, banks // 16))


def log_equal_counts(scan: Scan, bank: int, whole: np.ndarray, tail: np.ndarray) -> float:
    """Return the log of the chance that all banks agree exactly, 0 if they do not."""
    log = -log_choose(scan.cells, scan.nonzeros)
    for histogram, width in ((whole, bank), (tail, scan.cols % bank)):
        counts = np.flatnonzero(histogram)
        if len(counts) > 1:
            return 0.0
        if len(counts):
            log += int(histogram.sum()) * log_choose(width, int(counts[0]))
    return min(0.0, log)


def stored_values(rows: int, cols: int, bank: int, keep: int) -> int:
    """Return the values of a matrix stored with ``keep`` slots a bank."""
    return rows * (cols // bank * keep + min(keep, cols % bank))


def balanced_cost(scan: Scan, bank: int, values: int) -> Cost:
    """Return the modelled cost of ``values`` slots with in-bank indices."""
    lookups = 0.5 if bank <= IN_REGISTER else 1.0
    return modelled(scan.cells, values, values * index_bits(bank), scan.itemsize, lookups)


def _divergence(number: np.ndarray, rate: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """Return -n KL(rate || tail) where fewer banks than expected exceed, else 0."""
    tail = np.clip(tail, 1e-300, 1 - 1e-15)
    inside = (1 - rate) * (np.log1p(-rate) - np.log1p(-tail))
    hits = rate * (np.log(np.maximum(rate, 1e-300)) - np.log(tail))
    return np.where(rate < tail, -number * (inside + hits), 0.0)
