import pytest

from benchmarks.gpu.ratios import ratio_of

CASE = "w, float16, N={}, block 64x64 90%"


def row(rows, times, contaminated=()):
    taken = {name: {"median_us": us} for name, us in times.items()}
    marks = {"contaminated": dict.fromkeys(contaminated, "why")} if contaminated else {}
    return {"case": CASE.format(rows), "times": taken, "libraries_dense": ["cublas"], **marks}


def test_the_best_of_each_side():
    one = row(32, {"ours a": 20.0, "ours b": 10.0, "cublas": 45.0, "triton bsr": 30.0})
    ratio = ratio_of(one, [one])
    assert (ratio.ours, ratio.library) == ("ours b", "triton bsr")
    assert ratio.value == pytest.approx(3)
    assert ratio.left_out == ()


def test_what_may_be_the_best_withdraws_the_ratio():
    one = row(32, {"ours": 15.5, "cublas": 49.5, "triton bsr": 253.0}, ["triton bsr"])
    more = row(256, {"ours": 33.5, "cublas": 52.4, "triton bsr": 29.0})
    ratio = ratio_of(one, [one, more])
    assert ratio.value is None
    assert (ratio.library, ratio.library_us) == ("cublas", 49.5)
    assert ratio.left_out == ("triton bsr",)


def test_what_cannot_be_the_best_is_left_out():
    one = row(32, {"ours": 15.5, "cublas": 49.5, "triton bsr": 453.0}, ["triton bsr"])
    more = row(256, {"ours": 33.5, "cublas": 52.4, "triton bsr": 400.0})
    ratio = ratio_of(one, [one, more])
    assert ratio.value == pytest.approx(49.5 / 15.5)
    assert ratio.left_out == ("triton bsr",)


def test_nothing_else_known_withdraws_it():
    one = row(32, {"ours": 15.5, "cublas": 49.5, "triton bsr": 453.0}, ["triton bsr"])
    assert ratio_of(one, [one]).value is None


@pytest.mark.parametrize("side", [["ours"], ["cublas"], ["ours", "cublas"]])
def test_a_side_without_a_clean_time_has_no_ratio(side):
    one = row(32, {"ours": 15.5, "cublas": 49.5}, side)
    assert ratio_of(one, [one, row(256, {"ours": 40.0, "cublas": 400.0})]).value is None
