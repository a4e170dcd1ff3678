from benchmarks.pages import gpu_times_page
from benchmarks.pages.gpu_pages import PARTS

ENVIRONMENT = {"gpu": "NVIDIA H200", "date": "2026-12-01"}


def row(n, triton, **more):
    times = {"ours block": 10.0, "cublas": 50.0, "triton bsr": triton}
    taken = {name: {"median_us": us} for name, us in times.items()}
    case = f"w, float16, N={n}, block 64x64 90%"
    return {"case": case, "times": taken, "environment": ENVIRONMENT} | more


def text(*rows):
    measured = {part: None for part in PARTS} | {"grid": {"rows": list(rows)}}
    return "\n".join(gpu_times_page.lines(measured, PARTS))


def test_withdrawn_ratios_are_said_to_be():
    shown = text(row(32, 250.0, contaminated={"triton bsr": "why"}), row(256, 20.0))
    case = "| w, float16, N={}, block 64x64 90% | ours block 10.0 |"
    assert f"{case.format(32)} cublas 50.0 | withdrawn (for triton bsr) |" in shown
    assert f"{case.format(256)} triton bsr 20.0 | 2.00x |" in shown


def test_contenders_that_cannot_win_are_left_out():
    shown = text(row(32, 900.0, contaminated={"triton bsr": "why"}), row(256, 800.0))
    assert "| cublas 50.0 | 5.00x (without triton bsr) |" in shown


def test_how_rows_were_measured_is_said():
    shown = text(row(32, 20.0), row(256, 20.0, flush="clean"))
    assert "1 of 2 rows were measured behind a flush that left written lines" in shown
    assert "In 2 rows Triton's block kernel ran with its default parameters." in shown
    tuned = row(256, 20.0, flush="clean")
    tuned["times"]["triton bsr tuned"] = tuned["times"].pop("triton bsr")
    shown = text(tuned)
    assert "flush that left" not in shown
    assert "default parameters" not in shown


def test_how_near_the_model_came_is_said():
    rows = [
        row(n, 20.0, flush="clean", kernels={"block": {"kernel": "tile", "modelled_us": us}})
        for n, us in ((1, 10.0), (2, 12.5), (3, 5.0))
    ]
    old = row(4, 20.0, kernels={"block": {"kernel": "tile", "modelled_us": 1.0}})
    shown = text(*rows, old)
    assert "what the model gave 3 kernels" in shown.replace("The results say ", "")
    assert "Half are within 1.25 of what" in shown
    assert "the worst within 2.00" in shown.replace("\n", " ")
    assert "How well times were predicted" not in text(old)
