"""Black and white pictures as PNG files inside a page."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt


def data_url(mask: npt.NDArray[np.bool_]) -> str:
    """Return ``mask (rows, cols)`` as a ``data:`` URL of a PNG: True is opaque, False transparent.

    Two colours from a palette, one bit a pixel (PNG specification, third edition, 11.2).
    """
    rows, cols = mask.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), np.packbits(mask, axis=1)], axis=1)
    header = struct.pack(">IIBBBBB", cols, rows, 1, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", bytes((255, 255, 255, 47, 111, 159))),
        (b"tRNS", bytes((0, 255))),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)
