import base64
import struct
import zlib

import numpy as np

from tvm_sparse.report.png import data_url


def test_every_pixel_comes_back():
    mask = np.random.default_rng(0).random((5, 19)) < 0.5
    head, _, text = data_url(mask).partition(",")
    assert head == "data:image/png;base64"
    data = base64.b64decode(text)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, place = {}, 8
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        name, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        (check,) = struct.unpack(">I", data[place + 8 + size : place + 12 + size])
        assert check == zlib.crc32(name + body)
        found[name] = body
        place += 12 + size
    assert struct.unpack(">II", found[b"IHDR"][:8]) == (19, 5)
    lines = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(5, 4)
    assert not lines[:, 0].any()
    np.testing.assert_array_equal(np.unpackbits(lines[:, 1:], axis=1)[:, :19], mask)
