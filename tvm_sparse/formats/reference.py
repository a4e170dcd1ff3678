"""NumPy references of the native packers: the same names, arguments and results.

Tests compare the native library to these; the benchmark of the detector times both.
"""

# ruff: noqa: PLR0917 - the arguments are those of the native functions, which take no keywords.
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Raw = npt.NDArray[np.unsignedinteger]
WORD_BITS = 32
STEP = 16
"""Columns that first columns of sliding banks are multiples of."""


def pack_blocks(
    weight: Raw,
    owner: npt.NDArray[np.int32],
    columns: npt.NDArray[np.int32],
    used: npt.NDArray[np.uint8],
    values: Raw,
) -> None:
    """Fill ``values`` ``(slots, S, R)`` with the used blocks, transposed."""
    _, s, r = values.shape
    rows, cols = weight.shape
    padded = np.zeros((-(-rows // r) * r, cols), weight.dtype)
    padded[:rows] = weight
    tiles = padded.reshape(-1, r, cols)
    start = np.minimum(columns * s, cols - s)
    at = start[:, None] + np.arange(s)
    values[:] = tiles[owner[:, None], :, at]
    # Columns left of its own belong to the neighbour of a block that was moved left.
    values[(at < columns[:, None] * s) | (used[:, None] == 0)] = 0


def most_in_bank(
    weight: Raw, magnitude: int, bank: int, lanes: int, share: int, segments: int
) -> int:
    """Return the most columns of a bank that one of the rows with shared indices uses."""
    windows = _windows(weight, bank, lanes * share, segments)
    used = _shared((windows & _mask(weight, magnitude)) != 0, lanes, share)
    return int(used.sum(-1).max())


def pack_banks(
    weight: Raw,
    magnitude: int,
    bank: int,
    share: int,
    segments: int,
    banks_per_word: int,
    values: Raw,
    indices: npt.NDArray[np.int32],
) -> int:
    """Fill ``values`` ``(row_blocks, banks, keep, lanes)`` and the words of ``indices``.

    Return ``row * banks + bank`` of the first bank that holds more than ``keep``, or -1.
    """
    _, banks, keep, lanes = values.shape
    windows = _windows(weight, bank, lanes * share, segments)
    used = _shared((windows & _mask(weight, magnitude)) != 0, lanes, share)
    beyond = np.argwhere(used.sum(-1) > keep)
    if len(beyond):
        row, at = beyond[0].tolist()
        return int((row // lanes * share * lanes + row % lanes) * banks + at)
    order, named = _filled(used, _zeros(weight, magnitude, bank, lanes, share, segments), keep)
    # Slots that no row uses hold 0, also where the weight has a -0.
    flags = _unshared(np.take_along_axis(used, order, axis=-1) & named, lanes, share)
    chosen = np.take_along_axis(windows, _unshared(order, lanes, share), axis=-1) * flags
    values[:] = chosen.reshape(-1, lanes, banks, keep).transpose(0, 2, 3, 1)
    bits = max(1, (bank - 1).bit_length())
    slots = min(banks_per_word * keep, WORD_BITS // bits)
    words = -(-banks_per_word * keep // slots)
    flat = order.reshape(len(order), banks // banks_per_word, -1).astype(np.uint32)
    flat = np.pad(flat, ((0, 0), (0, 0), (0, words * slots - flat.shape[-1])))
    shifts = (bits * np.arange(slots)).astype(np.uint32)
    packed = np.bitwise_or.reduce(flat.reshape(len(order), -1, slots) << shifts, axis=-1)
    indices[:] = packed.reshape(-1, lanes, packed.shape[1]).transpose(0, 2, 1).view(np.int32)
    return -1


def _filled(
    used: npt.NDArray[np.bool_], zeros: npt.NDArray[np.bool_], keep: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the columns of ``keep`` slots, the used ones and as many zeros, and which are these.

    The last one of them stands in the slots behind.
    """
    rank = np.where(used, 0, np.where(zeros, 1, 2))
    first = np.argsort(rank, axis=-1, kind="stable")[..., :keep]
    found = np.take_along_axis(rank, first, axis=-1) < 2
    last = np.where(found, first, 0).max(-1, keepdims=True)
    order = np.sort(np.where(found, first, last), axis=-1)
    return order, np.arange(keep) < found.sum(-1, keepdims=True)


def _zeros(
    weight: Raw, magnitude: int, bank: int, lanes: int, share: int, segments: int
) -> npt.NDArray[np.bool_]:
    """Return the columns of each window in which all rows with shared indices are zero."""
    windows = _windows(weight, bank, lanes * share, segments, own=False)
    return ~_shared((windows & _mask(weight, magnitude)) != 0, lanes, share)


def sliding_counts(
    bits: Raw,
    cols: int,
    keep: int,
    bank: int,
    span: int,
    lanes: int,
    counts: npt.NDArray[np.int64],
) -> None:
    """Write the number of banks of each block of ``lanes`` rows to ``counts`` ``(blocks,)``."""
    found = [len(list(_sliding(b, keep, bank, span))) for b in _blocks(bits, cols, lanes)]
    counts[:] = found


def sliding_banks(
    bits: Raw,
    cols: int,
    keep: int,
    bank: int,
    span: int,
    lanes: int,
    columns: npt.NDArray[np.int64],
    taken: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.uint8],
) -> None:
    """Write first columns, numbers of values, and their columns in each bank."""
    at, taken[:] = 0, 0
    for block in _blocks(bits, cols, lanes):
        for start, values in _sliding(block, keep, bank, span):
            columns[at] = start
            for lane, places in enumerate(values):
                taken[at, lane] = len(places)
                indices[at, : len(places), lane] = places - start
                zeros = np.setdiff1d(np.arange(start, start + bank), block[lane])
                rest = [*zeros[:1], *places[-1:], start][0]
                indices[at, len(places) :, lane] = rest - start
            at += 1


def _blocks(bits: Raw, cols: int, lanes: int) -> list[list[npt.NDArray[np.int64]]]:
    """Return the columns of the nonzeros of each row, for each block of ``lanes`` rows."""
    flags = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, :cols]
    rows = [np.flatnonzero(row) for row in flags]
    return [rows[i : i + lanes] for i in range(0, len(rows), lanes)]


def _sliding(
    rows: list[npt.NDArray[np.int64]], keep: int, bank: int, span: int
) -> Iterator[tuple[int, list[npt.NDArray[np.int64]]]]:
    """Yield each bank's first column, and the columns that each row stores."""
    while any(len(row) for row in rows):
        tap, column = divmod(min(int(row[0]) for row in rows if len(row)), span)
        start = tap * span + min(column // STEP * STEP, span - bank)
        counts = [min(keep, int((row < start + bank).sum())) for row in rows]
        yield start, [row[:n] for row, n in zip(rows, counts, strict=True)]
        rows = [row[n:] for row, n in zip(rows, counts, strict=True)]


def _mask(weight: Raw, magnitude: int) -> np.unsignedinteger:
    """Return ``magnitude`` as an element of ``weight``."""
    return weight.dtype.type(magnitude & np.iinfo(weight.dtype).max)


def _windows(weight: Raw, bank: int, multiple: int, segments: int, *, own: bool = True) -> Raw:
    """Return each bank's window, or its own columns of it: ``(rows padded, banks, bank)``."""
    rows, cols = weight.shape
    padded = np.zeros((-(-rows // multiple) * multiple, segments, cols // segments), weight.dtype)
    padded[:rows] = weight.reshape(rows, segments, -1)
    first = np.arange(0, cols // segments, bank)
    start = np.minimum(first, cols // segments - bank)
    at = start[:, None] + np.arange(bank)
    windows = padded[:, :, at]
    if own:
        windows = windows * (at >= first[:, None])
    return windows.reshape(len(padded), -1, bank)


def _shared(used: npt.NDArray[np.bool_], lanes: int, share: int) -> npt.NDArray[np.bool_]:
    """Union the flags of the rows that share indices."""
    shape = (-1, share, lanes, *used.shape[1:])
    return used.reshape(shape).any(1).reshape(-1, *used.shape[1:])


def _unshared(per_lane: np.ndarray, lanes: int, share: int) -> np.ndarray:
    """Repeat what rows share for each of them."""
    grouped = per_lane.reshape(-1, 1, lanes, *per_lane.shape[1:])
    return np.repeat(grouped, share, axis=1).reshape(-1, *per_lane.shape[1:])
