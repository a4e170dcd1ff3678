from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gpu.hopper.work import Work, shared_out

COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(COUNTS, st.integers(1, 4), st.integers(1, 8), st.sampled_from([1, 2]))
def test_each_piece_is_read_once_for_each_tile_of_rows(counts, row_tiles, units, parts):
    work = shared_out(counts, row_tiles, units, parts)
    if work.items is None:
        assert work == Work(None, None, len(counts) * row_tiles)
        assert len(set(counts)) == 1
        return
    wanted = {(tile, row) for tile in range(len(counts)) for row in range(row_tiles)}
    assert {(item.feature_tile, item.row_tile) for item in work.items} == wanted
    assert len(work.items) == len(wanted)
    for item in work.items:
        assert item.first == sum(counts[: item.feature_tile])
        assert item.pieces == counts[item.feature_tile]
    if work.first_items is None:
        assert work.units == len(work.items)
    else:
        assert parts == 1
        assert work.units == units
        assert (work.first_items[0], work.first_items[-1]) == (0, len(work.items))
        assert sorted(work.first_items) == work.first_items
        assert len(work.first_items) == units + 1


def test_long_items_come_first_and_alone():
    work = shared_out([1, 9, 1, 1], 1, 2, 1)
    lists = [work.items[a:b] for a, b in zip(work.first_items, work.first_items[1:], strict=False)]
    assert [[item.pieces for item in found] for found in lists] == [[9], [1, 1, 1]]
