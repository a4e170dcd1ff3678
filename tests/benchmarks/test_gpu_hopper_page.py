from benchmarks.pages import gpu_hopper_page

ENVIRONMENT = {"gpu": "NVIDIA H1", "date": "2026-12-01"}
CASE = "8192x8192, float16, N={}, block 64x64 90%"


def row(n, by_hand, **more):
    times = {"by hand": {"median_us": by_hand}, "cublas": {"median_us": 40.0}}
    about = {"case": f"{CASE.format(n)}, by hand: tiles", "rows": n, "times": times}
    about |= {"pattern": "block 64x64", "sparsity": 0.9, "design": "tiles"}
    return about | {"environment": ENVIRONMENT} | more


def compiled(n, ours, flush="clean"):
    times = {"ours block": {"median_us": ours}, "cublas": {"median_us": 1.0}}
    return {"case": CASE.format(n), "flush": flush, "times": times}


def text(*rows, grid=()):
    return "\n".join(gpu_hopper_page.lines({"rows": list(rows)}, {"rows": list(grid)}))


def test_nothing_is_said_of_nothing():
    assert gpu_hopper_page.lines(None, None) == []


def test_times_stand_beside_those_of_the_compiler():
    shown = text(row(64, 20.0), row(1, 10.0), grid=[compiled(1, 12.5)])
    assert "| weight | design | N = 1 | N = 64 |" in shown
    assert "| block 64x64 90% | tiles | 10.0 / 12.5 / 40.0 | 20.0 / / 40.0 |" in shown
    assert "not what the compiler makes" in shown
    assert "NVIDIA H1, 2026-12-01" in shown
    assert "What binds" not in shown


def test_times_of_another_flush_are_not_beside_them():
    assert "| 10.0 / / 40.0 |" in text(row(1, 10.0), grid=[compiled(1, 12.5, "dirty")])


def test_what_binds_is_shown():
    found = {"whole_us": 12.0, "without_us": {"products": 11.0, "activations": 11.5}}
    assert "| block 64x64 90% | tiles | 12.0 |  | 11.0 | 11.5 |" in text(
        row(32, 11.0, ablation=found)
    )
