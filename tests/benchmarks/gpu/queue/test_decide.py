from benchmarks.gpu.queue.decide import decisions


def row(case, on, off=10.0, **more):
    times = {"ours off": {"median_us": off}, "ours on": {"median_us": on}}
    return {"case": case, "mend": "m", "times": times} | more


def test_what_gains_everywhere_is_kept():
    assert list(decisions([row("a", 8.0), row("b", 10.1)])) == [
        "keep: m, on: median 1.12x, 0.99 to 1.25x over 2 layers"
    ]


def test_what_gains_nowhere_is_dropped():
    assert list(decisions([row("a", 9.9), row("b", 12.5)])) == [
        "drop: m, on: median 0.91x, 0.80 to 1.01x over 2 layers"
    ]


def test_what_gains_here_and_loses_there_is_listed():
    first, *layers = decisions([row("a", 5.0), row("b", 12.5)])
    assert first == "choose by layer: m, on: median 1.40x, 0.80 to 2.00x over 2 layers"
    assert layers == ["  2.00x a", "  0.80x b"]


def test_contaminated_rows_decide_nothing():
    assert not list(decisions([row("a", 5.0, contaminated={"ours off": "why"})]))
