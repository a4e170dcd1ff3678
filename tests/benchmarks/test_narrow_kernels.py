"""The benchmark of narrow numbers: outputs are checked, pages have a line for each pattern."""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import common, narrow_kernels
from benchmarks.kernel_cases import conv, linear
from benchmarks.kernel_race import Race
from tvm_sparse.numerics import BFLOATS, INTEGERS


def small(numerics):
    found = BFLOATS[0] if numerics == "bfloat16" else INTEGERS[0]
    cases = [linear(4, 64, 32)] + ([conv(5, 64, 32, 3)] if numerics == "int8" else [])
    return [replace(case, contraction=replace(case.contraction, numerics=found)) for case in cases]


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["int8", "bfloat16"])
def test_rows_of_small_layers(numerics):
    options = argparse.Namespace(numerics=numerics, threads=1, rounds=1, seconds=0.0)
    for case in small(numerics):
        rows = narrow_kernels.measure(case, options)
        assert [r["sparsity"] for r in rows] == [0.0, *narrow_kernels.LEVELS * 2]
        assert {r["numerics"] for r in rows} == {numerics}
        assert all(r["ratio"] > 0 for r in rows)


def test_wrong_libraries_are_found():
    def wrong(case, x, matrix, threads):
        return {"wrong": lambda: np.zeros(case.contraction.output_shape)}

    with pytest.raises(SystemExit, match="wrong differs from the reference"):
        Race(small("int8")[0], peers=wrong, tolerance=1e-6).add_dense()


def test_the_page_has_a_line_for_each_pattern(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    row = {"case": "l", "numerics": "int8", "threads": 1, "library": "oneDNN", "library_us": 6.0}
    row |= {"environment": {"cpu": "some"}, "storage": "dense", "ours_us": 5.0}
    levels = [("dense", 0.0, 1.2), ("blocks", 0.75, 4.0), ("blocks", 0.9375, 15.0)]
    rows = [row | {"pattern": p, "sparsity": s, "ratio": r} for p, s, r in levels]
    common.save(narrow_kernels.NAME, {"rows": rows})
    narrow_kernels.write(tmp_path)
    lines = (tmp_path / "narrow_kernels.md").read_text().splitlines()
    assert lines[-1] == "| l | int8 | 1 | blocks | 1.20 | 4.00 |  | 15.00 | oneDNN, 6.0 us |"
