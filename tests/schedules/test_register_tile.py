"""Register tiles: as much reuse as registers allow, partial only where no divisor is good."""

from __future__ import annotations

import pytest

from tvm_sparse.schedules.cpu.register_tile import RegisterTile, default_tile, is_partial


@pytest.mark.parametrize(
    ("rows", "blocks", "share", "most", "tile"),
    [
        (128, 64, 1, 16, RegisterTile(4, 4)),
        (128, 32, 2, 16, RegisterTile(4, 2)),
        (4, 64, 1, 16, RegisterTile(4, 4)),
        (1, 64, 1, 16, RegisterTile(1, 8)),
        (None, 64, 1, 16, RegisterTile(1, 8)),
        (14, 1, 1, 16, RegisterTile(14, 1)),
        (197, 48, 1, 16, RegisterTile(4, 4)),
        (128, 64, 1, 3, RegisterTile(2, 1)),
        (8, 4, 4, 2, RegisterTile(1, 1)),
    ],
)
def test_default_tile(rows, blocks, share, most, tile):
    assert default_tile(rows, blocks, share, most=most) == tile
    assert default_tile(rows, blocks, share, most=most).rows <= (rows or 1)


def test_a_tile_is_partial_where_rows_are_left():
    assert is_partial(197, RegisterTile(4, 4))
    assert not is_partial(196, RegisterTile(4, 4))
    assert not is_partial(None, RegisterTile(4, 4))


def test_a_tile_is_no_wider_than_allowed():
    assert default_tile(14, 4, most=16, widest=2).vectors <= 2
    assert default_tile(197, 2, most=16, widest=1) == RegisterTile(16, 1)


def test_a_tile_is_higher_where_weights_come_with_indices():
    assert default_tile(128, 64, most=16, loads=2) == RegisterTile(8, 2)
    assert default_tile(196, 64, most=16, loads=2) == RegisterTile(7, 2)
