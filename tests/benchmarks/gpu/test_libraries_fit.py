"""The dense library's costs follow from all rows that have its times."""

import math
from dataclasses import replace

import pytest

from benchmarks.gpu import libraries_fit
from benchmarks.gpu.cases import convolutions
from benchmarks.gpu.libraries_fit import fitted_library
from tvm_sparse.selection.cuda.chip import DenseLibrary, Quads, Table, Windows, load
from tvm_sparse.selection.cuda.library_time import (
    convolution_seconds,
    dense_seconds,
    two_four_seconds,
)

H200 = load("h200")
TRUE = DenseLibrary("cuBLAS", 5e-6, 1.3, {"float32": 0.8, "float16": 0.6, "bfloat16": 0.6})
COUNTS = (1, 16, 256, 4096)


def table(dtype):
    """Rows as the queue's step ``library`` writes them: many rows of activations in one."""
    for features, columns in ((1024, 4096), (4096, 4096), (16384, 1024)):
        times = {}
        for rows in COUNTS:
            us = dense_seconds((rows, features, columns), dtype, H200, TRUE) * 1e6
            times |= {f"cublas N={rows}": {"median_us": 2 * us}}
            times |= {f"cublaslt N={rows}": {"median_us": us}}
        yield {
            "case": f"{features}x{columns}, {dtype}",
            "features": features,
            "columns": columns,
            "times": times,
        }


def test_the_table_of_the_queue_is_fitted(monkeypatch):
    rows = [row for dtype in ("float32", "float16") for row in table(dtype)]
    monkeypatch.setattr(libraries_fit, "rows", lambda on, part: rows if part == "library" else [])
    found, errors = fitted_library(H200)
    assert len(errors) == len(rows) * len(COUNTS)
    assert max(map(abs, errors)) < 0.02
    assert found["launch"] == pytest.approx(TRUE.launch, rel=0.05)
    assert found["memory"] == pytest.approx(TRUE.memory, rel=0.05)
    assert found["parts"] == pytest.approx(TRUE.parts, rel=0.05)


def test_contaminated_times_and_other_products_do_not_count(monkeypatch):
    (row, *_) = table("float16")
    late = {**row, "contaminated": {name: "why" for name in row["times"] if "lt" not in name}}
    late["times"] = {**row["times"], "mv N=1": {"median_us": 0.1}}
    monkeypatch.setattr(libraries_fit, "rows", lambda on, part: [late] if part == "library" else [])
    _, errors = fitted_library(H200)
    assert len(errors) == len(COUNTS)


def test_convolutions_that_were_timed_correct_their_model(monkeypatch):
    def row(case):
        theirs = convolution_seconds(case.contraction, H200)
        ours = libraries_fit._time(case.contraction, "ours dense", H200)
        times = {"cudnn nhwc": {"median_us": 0.8e6 * theirs}}
        times |= {"ours dense": {"median_us": 1.7e6 * ours}, "cudnn nchw": {"median_us": 1.0}}
        return {"case": case.name, "times": times}

    timed = [row(case) for case in convolutions()]
    late = {**timed[0], "times": {name: {"median_us": 1e9} for name in timed[0]["times"]}}
    late["contaminated"] = dict.fromkeys(late["times"], "why")
    parts = {"convolutions": [*timed, late]}
    monkeypatch.setattr(libraries_fit, "rows", lambda on, part: parts.get(part, []))
    found = libraries_fit.windows_of(H200)
    assert (found.theirs, found.ours, found.measured) == (0.8, 1.7, True)
    monkeypatch.setattr(libraries_fit, "rows", lambda on, part: [])
    assert libraries_fit.windows_of(H200) == Windows()


@pytest.mark.parametrize("count", [1, 5])
def test_2_4_layers_that_were_timed_are_fitted(count, monkeypatch):
    true = Quads(step=8.0, part=0.7, measured=count >= libraries_fit.SIZES)
    like = replace(H200, library=replace(H200.library, quads=true))
    sizes = [(1024 * n, 2048 * n) for n in range(count, 0, -1)]

    def row(rows, features, columns):
        us = two_four_seconds((rows, features, columns), "float16", like) * 1e6
        times = {"cusparselt 2:4": {"median_us": us}}
        case = f"{features}x{columns}, float16, N={rows}, 2:4 50%"
        return {
            "case": case,
            "rows": rows,
            "features": features,
            "columns": columns,
            "times": times,
        }

    timed = [row(n, *size) for size in sizes for n in (16, 1024, 8192)]
    late = {**row(64, 512, 512), "contaminated": {"cusparselt 2:4": "why"}}
    parts = {"grid": timed, "two_four": [late]}
    monkeypatch.setattr(libraries_fit, "rows", lambda on, part: parts.get(part, []))
    found = libraries_fit.quads_of(H200)
    assert found.measured == true.measured
    assert (found.step, found.part) == pytest.approx((true.step, true.part), rel=0.02)
    monkeypatch.setattr(libraries_fit, "rows", lambda on, part: [])
    assert libraries_fit.quads_of(H200) == H200.library.quads


def test_what_was_committed_of_2_4_follows_from_what_was_measured():
    assert libraries_fit.quads_of(H200) == H200.library.quads


def test_what_was_committed_is_near_what_was_measured():
    errors = fitted_library(H200)[1]
    assert sorted(map(abs, errors))[len(errors) * 9 // 10] < 0.2


def test_between_the_sizes_of_the_table_times_are_near_measured_ones():
    """A table of three rows says what a library takes for sizes between them, and beyond."""
    made = modelled_table(H200, TRUE, factor=1.5)
    for size in ((4, 2048, 2048), (64, 8192, 8192), (8192, 512, 512)):
        time = dense_seconds(size, "float16", H200, made)
        assert time == pytest.approx(1.5 * dense_seconds(size, "float16", H200, TRUE), rel=1e-6)
    assert dense_seconds((4, 2048, 2048), "float32", H200, made) == pytest.approx(
        dense_seconds((4, 2048, 2048), "float32", H200, TRUE)
    )


def modelled_table(on, library, factor):
    """A library whose table, of one dtype, is ``factor`` times what its model says."""
    axes = [[1, 64, 4096], [1024, 16384], [1024, 16384]]
    us = [
        [
            [dense_seconds((n, f, c), "float16", on, library) * 1e6 * factor for c in axes[2]]
            for f in axes[1]
        ]
        for n in axes[0]
    ]
    return replace(library, table=Table(*axes, {"float16": us}))


def test_sizes_that_the_table_lacks_are_near_what_was_measured():
    """8192 x 8192 at 256 rows fills the SMs once, which no neighbour in the table does."""
    found = [
        abs(math.log(dense_seconds(size, dtype, H200, H200.library) * 1e6 / us))
        for row in libraries_fit.rows(H200, "grid")
        if row.get("flush", "dirty") == "clean"
        for size, dtype, us in libraries_fit._points(row)
        if size[0] != 256
    ]
    assert len(found) >= 8 and max(found) < 0.18
