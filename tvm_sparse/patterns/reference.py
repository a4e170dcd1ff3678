"""NumPy references of the native scans: the same names, arguments and results, for small inputs.

Tests compare the native library to these; the benchmark of the detector times both.
"""

# ruff: noqa: PLR0917 - the arguments are those of the native functions, which take no keywords.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvm_sparse.patterns.banks import tolerated

Bits = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]


def flags(bits: Bits, cols: int) -> npt.NDArray[np.bool_]:
    """Return the bit plane ``(rows, ceil(cols / 64))`` as flags ``(rows, cols)``."""
    little = bits.astype("<u8").view(np.uint8).reshape(len(bits), -1)
    return np.unpackbits(little, axis=1, bitorder="little", count=cols).astype(bool)


def scan_plane(
    weight: npt.NDArray[np.unsignedinteger],
    magnitude: int,
    exponent: int,
    bits: Bits,
    row_count: Counts,
    row_pair: Counts,
    col_count: Counts,
    col_pair: Counts,
) -> int:
    """Fill the bit plane of nonzeros and the counts of rows, columns and neighbours."""
    unsigned = weight.dtype.type
    masked = weight & unsigned(exponent & np.iinfo(unsigned).max)
    bad = np.flatnonzero(masked == unsigned(exponent & np.iinfo(unsigned).max))
    if exponent and len(bad):
        return int(bad[0])
    nonzero = (weight & unsigned(magnitude & np.iinfo(unsigned).max)) != 0
    padded = np.pad(nonzero, ((0, 0), (0, -nonzero.shape[1] % 64)))
    bits[:] = np.packbits(padded, axis=1, bitorder="little").view("<u8")
    row_count[:] = nonzero.sum(1)
    col_count[:] = nonzero.sum(0)
    row_pair[:] = col_pair[:] = 0
    row_pair[1:] = (nonzero[1:] & nonzero[:-1]).sum(1)
    col_pair[1:] = (nonzero[:, 1:] & nonzero[:, :-1]).sum(0)
    return -1


def bank_counts(bits: Bits, cols: int, bank: int) -> Counts:
    """Return the nonzeros of every bank ``(rows, ceil(cols / bank))``."""
    return np.add.reduceat(flags(bits, cols), np.arange(0, cols, bank), axis=1, dtype=np.int64)


def bank_histogram(bits: Bits, cols: int, bank: int, step: int, hist: Counts, tail: Counts) -> None:
    """Fill the histograms of the counts of whole banks and of short last banks."""
    counts = bank_counts(bits[::step], cols, bank)
    whole = cols // bank
    hist[:] = np.bincount(counts[:, :whole].reshape(-1), minlength=bank + 1)
    tail[:] = np.bincount(counts[:, whole:].reshape(-1), minlength=bank + 1)


def bank_sweep(bits: Bits, cols: int, step: int, summary: Counts) -> None:
    """Fill, for every bank size: banks, least, most, 99 % count, and how many banks exceed it."""
    for bank in range(1, len(summary)):
        counts = bank_counts(bits[::step], cols, bank)[:, : cols // bank]
        keep = next(k for k in range(bank + 1) if (counts > k).sum() <= tolerated(counts.size))
        summary[bank] = counts.size, counts.min(), counts.max(), keep, (counts > keep).sum()


def banks_beyond(bits: Bits, cols: int, bank: int, keep: int, lanes: int, out: Counts) -> None:
    """Fill the first bank with more than ``keep`` nonzeros, and the row groups with such a bank."""
    beyond = bank_counts(bits, cols, bank) > keep
    out[0] = np.flatnonzero(beyond)[0] if beyond.any() else -1
    out[1] = len(np.unique(np.flatnonzero(beyond.any(1)) // lanes))


def block_counts(
    bits: Bits, cols: int, block_rows: int, block_cols: int, counts: npt.NDArray[np.int32]
) -> None:
    """Fill the nonzeros of every block ``(ceil(rows / R), ceil(cols / S))``."""
    across = bank_counts(bits, cols, block_cols)
    counts[:] = np.add.reduceat(across, np.arange(0, len(bits), block_rows), axis=0)


def block_totals(bits: Bits, cols: int, block_rows: int, block_cols: int, out: Counts) -> None:
    """Fill the number of blocks that hold a nonzero and the number of weights in them."""
    shape = (-(-len(bits) // block_rows), -(-cols // block_cols))
    counts = np.empty(shape, np.int32)
    block_counts(bits, cols, block_rows, block_cols, counts)
    heights = np.minimum(block_rows, len(bits) - block_rows * np.arange(shape[0]))
    widths = np.minimum(block_cols, cols - block_cols * np.arange(shape[1]))
    out[:] = (counts > 0).sum(), heights @ (counts > 0) @ widths


def visible_moments(
    bits: Bits,
    cols: int,
    block_rows: int,
    block_cols: int,
    step: int,
    banks: Counts,
    out: npt.NDArray[np.float64],
) -> None:
    """Fill sums over the banks of each size that have weights in blocks holding a nonzero."""
    counts = np.empty((-(-len(bits) // block_rows), -(-cols // block_cols)), np.int32)
    block_counts(bits, cols, block_rows, block_cols, counts)
    wide = np.repeat(np.repeat(counts > 0, block_rows, axis=0), block_cols, axis=1)
    kept, nonzero = wide[: len(bits) : step, :cols], flags(bits, cols)[::step]
    for i, bank in enumerate(banks.tolist()):
        starts, whole = np.arange(0, cols, bank), cols // bank
        v = np.add.reduceat(kept, starts, axis=1, dtype=np.int64)[:, :whole]
        c = np.add.reduceat(nonzero, starts, axis=1, dtype=np.int64)[:, :whole][v > 0]
        v = v[v > 0]
        out[i] = len(v), v.sum(), c.sum(), (c * c / v).sum()
