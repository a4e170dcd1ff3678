import json
from pathlib import Path

import pytest

from benchmarks.gpu.contaminated import PARTS, marked
from benchmarks.harness import rows as files

ROOT = Path(__file__).resolve().parents[3]
DENSE = ("cublas",)


def row(case, times, **more):
    """A row whose ``times`` are contender -> median and 99th percentile."""
    taken = {name: {"median_us": m, "p99_us": p} for name, (m, p) in times.items()}
    return {"case": case, "times": taken, "libraries_dense": DENSE, **more}


def names(rows):
    return [sorted(one.get("contaminated", {})) for one in marked(rows)]


def test_more_rows_take_no_less():
    rows = [
        row("w, float16, N=32, block 64x64 90%", {"triton bsr": (253.0, 363.0)}),
        row("w, float16, N=256, block 64x64 90%", {"triton bsr": (29.0, 30.7)}),
    ]
    assert names(rows) == [["triton bsr"], []]
    reason = marked(rows)[0]["contaminated"]["triton bsr"]
    assert reason.startswith("8.72x its own time of 'w, float16, N=256, block 64x64 90%'")


def test_more_zeros_take_no_more():
    rows = [
        row("w, float16, N=256, block 32x32 90%", {"triton bsr": (54.0, 57.0)}),
        row("w, float16, N=256, block 32x32 95%", {"triton bsr": (116.0, 264.0)}),
    ]
    assert names(rows) == [[], ["triton bsr"]]


def test_dense_libraries_take_the_same_for_every_pattern():
    rows = [
        row("w, float16, N=32, block 64x64 90%", {"cublas": (81.9, 102.4)}),
        row("w, float16, N=32, balanced 75%", {"cublas": (45.0, 47.0)}),
    ]
    assert names(rows) == [["cublas"], []]


@pytest.mark.parametrize(
    "other",
    [
        "w, float16, N=8, block 64x64 90%",  # less work
        "w, float16, N=256, block 64x64 95%",
        "w, float16, N=256, balanced 90%",  # another pattern, layer or dtype
        "v, float16, N=256, block 64x64 90%",
        "w, float32, N=256, block 64x64 90%",
    ],
)
def test_other_work_is_not_compared(other):
    first = row("w, float16, N=32, block 64x64 90%", {"triton bsr": (253.0, 363.0)})
    assert names([first, row(other, {"triton bsr": (29.0, 30.0)})])[0] == []


def test_kernels_that_are_slower_for_few_rows_do_not_spread():
    rows = [
        row("w, float16, N=32, pair", {"ours fused": (106.2, 108.3)}),
        row("w, float16, N=256, pair", {"ours fused": (65.1, 66.7)}),
    ]
    assert names(rows) == [[], []]


def test_without_anything_alike_the_spread_decides():
    rows = [row("perceptron", {"torch eager": (192.0, 354.0), "ours dense": (50.0, 60.0)})]
    assert names(rows) == [["torch eager"]]


def test_rows_that_say_how_they_were_timed_stay_as_they_are():
    late = row("p", {"torch eager": (192.0, 354.0)}, flush="clean", contaminated={"a": "why"})
    assert marked([late]) == [late]


def test_marks_of_an_older_rule_are_renewed():
    rows = [row("p", {"a": (50.0, 51.0)}, contaminated={"a": "an older rule"})]
    assert names(rows) == [[]]


FILES = {part: ROOT / f"benchmarks/results/gpu_{part}.json" for part in PARTS}


@pytest.mark.parametrize("part", [part for part, path in FILES.items() if path.exists()])
def test_the_results_are_marked_by_the_rule(part):
    content = files.loads(FILES[part].read_text())
    again = json.loads(json.dumps(marked(content["rows"])))
    assert content["rows"] == again
