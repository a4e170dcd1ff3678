import pytest

from benchmarks.papers import deprune_steps
from benchmarks.papers.deprune_steps import fall_at_tiles

PRUNED = list(range(0, 136, 8))


def test_a_staircase_and_a_line():
    stairs = [100.0 - 10 * (count // 32) for count in PRUNED]
    assert fall_at_tiles(PRUNED, stairs) == 1
    line = [200.0, *(100.0 - count for count in PRUNED[1:])]  # the first one is another kernel
    assert fall_at_tiles(PRUNED, line) == pytest.approx(4 / 15)


def test_page():
    def row(count):
        time = {"median_us": 300.0 - count}
        return {"pruned": count, "ours": {"x": time}, "product": time, "refactored": time}

    rows = [row(count) for count in deprune_steps.PRUNED]
    library = {"oneDNN": {"median_us": 80.0}}
    content = {"case": "c", "vectors": 288, "libraries_dense": library, "rows": rows}
    page = deprune_steps.markdown(content)
    assert "| 32 | 268.0 | 268.0 | 268.0 |" in page
    assert "the step function does not exist on this CPU" in page
    assert "does not exist" in deprune_steps.finding(content)
