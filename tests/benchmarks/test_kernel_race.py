"""The race of programs: outputs are checked before anything is timed, in all numbers."""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import cpu_kernels
from benchmarks.cases.kernel_cases import NARROW_LEVELS, NUMERICS, conv, linear, patterns
from benchmarks.harness.kernel_race import Race


def small(numerics):
    found = NUMERICS[numerics][0]
    cases = [linear(16, 64, 32)] + ([conv(5, 64, 32, 3)] if numerics == "int8" else [])
    return [replace(case, contraction=replace(case.contraction, numerics=found)) for case in cases]


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["int8", "bfloat16"])
def test_rows_of_small_layers(numerics):
    options = argparse.Namespace(numerics=numerics, threads=1, rounds=1, seconds=0.0, cpu="")
    for case in small(numerics):
        for pattern in patterns(case):
            rows = cpu_kernels.measure(case, pattern, options)
            assert [r["sparsity"] for r in rows] == list(NARROW_LEVELS)
            assert {r["numerics"] for r in rows} == {numerics}
            assert all(r["libraries_dense"] and not r["libraries_sparse"] for r in rows)


def test_wrong_libraries_are_found():
    def wrong(case, x, matrix, threads):
        return {"wrong": lambda: np.zeros(case.contraction.output_shape)}

    with pytest.raises(SystemExit, match="wrong differs from the reference"):
        Race(small("int8")[0], peers=wrong).add_dense()
