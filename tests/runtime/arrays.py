"""Arrays that begin where a test wants them to."""

from __future__ import annotations

import numpy as np


def aligned(count: int, dtype: str, offset: int = 0) -> np.ndarray:
    """Return a zeroed array that begins ``offset`` bytes after a multiple of 64."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + 128, np.uint8)
    begin = -raw.ctypes.data % 64 + offset
    return raw[begin : begin + size].view(dtype)
