"""2:4 products by cuSPARSELt, found in the process, and computed by its stand-in."""

from __future__ import annotations

import itertools

import pytest

from tests.runtime import library_cases

CASE = {
    "size": (24, 32, 48),
    "keep": 2,
    "dtype": "float16",
    "out_dtype": "float16",
    "epilogue": 0,
    "workspace": library_cases.WORKSPACE,
}
EPILOGUES = range(4)
"""Sums of a bias and a residual."""


def run(cases, **variables):
    return library_cases.run("two_four_cases", cases, **variables)


def test_products_are_exact_on_small_integers():
    sizes = ((24, 32, 48), (8, 16, 16), (17, 32, 16), (31, 16, 64), (9, 48, 32))
    types = ("float16", "bfloat16")
    cases = [
        {**CASE, "size": size, "dtype": dtype, "out_dtype": dtype, "epilogue": epilogue}
        for size, dtype, epilogue in itertools.product(sizes, types, EPILOGUES)
    ]
    results, told = run([*cases, {**CASE, "keep": 1}, *cases[:10]])
    assert set(results) == {(0, True)}
    assert not told


@pytest.mark.grid
@pytest.mark.parametrize(
    ("change", "variables", "what", "why"),
    [
        ({}, {"FAKE_CUSPARSELT": "plan"}, "24 x 32 x 48", "NOT_SUPPORTED"),
        ({}, {"FAKE_CUSPARSELT": "room"}, "24 x 32 x 48", "NOT_SUPPORTED"),
        ({}, {"FAKE_CUSPARSELT": "multiply"}, "24 x 32 x 48", "EXECUTION_FAILED"),
        ({"workspace": 0}, {}, "24 x 32 x 48", "NOT_SUPPORTED"),
        ({"offset": 2}, {}, "24 x 32 x 48", "INVALID_VALUE"),
        ({"size": (7, 32, 48)}, {}, "0 x 32 x 48", "NOT_SUPPORTED"),
    ],
)
def test_what_is_not_computed_is_said_once_and_leaves_the_output_alone(
    change, variables, what, why
):
    results, told = run([{**CASE, **change}] * 3, **variables)
    assert results == [(1, True)] * 3
    (line,) = told.splitlines()
    assert line.startswith(f"tvm-sparse: cuSPARSELt does not compute {what} (CUSPARSE_STATUS_")
    assert line.endswith(f"{why}); our own kernel runs")


@pytest.mark.grid
@pytest.mark.parametrize(
    ("change", "variables", "why"),
    [
        ({"keep": 3}, {}, "EXECUTION_FAILED"),
        ({}, {"FAKE_CUSPARSELT": "compress"}, "EXECUTION_FAILED"),
        ({}, {"FAKE_CUSPARSELT": "memory"}, "ALLOC_FAILED"),
        ({"size": (24, 24, 48)}, {}, "INVALID_VALUE"),
        ({"size": (24, 32, 40)}, {}, "INVALID_VALUE"),
    ],
)
def test_weights_that_are_not_compressed_are_never_read(change, variables, why):
    results, told = run([{**CASE, **change}], **variables)
    assert results == [(1, True)]
    (line,) = told.splitlines()
    assert " weights (CUSPARSE_STATUS_" in line and line.endswith(f"{why}); our own kernel runs")


def test_sums_that_stay_wide_are_ours():
    assert run([{**CASE, "out_dtype": "float32"}]) == ([(1, True)], "")


@pytest.mark.grid
@pytest.mark.parametrize(
    "variables",
    [
        {"FAKE_CUSPARSELT": "old"},
        {"FAKE_CUSPARSELT": "start"},
        {"TVM_SPARSE_CUSPARSELT": "off"},
        {"TVM_SPARSE_CUSPARSELT": "/nowhere/libcusparseLt.so.0"},
    ],
)
def test_without_a_library_nothing_is_computed(variables):
    assert run([CASE], **variables) == ([(1, True)], "")


def test_memory_of_weights_goes_with_them(tmp_path):
    log = tmp_path / "log"
    assert run([CASE], FAKE_CUDA_LOG=str(log)) == ([(0, True)], "")
    lines = log.read_text().splitlines()
    taken = [line for line in lines if line.startswith("malloc ")]
    given = [line for line in lines if line.endswith(": free")]
    assert len(taken) == len(given) >= len(library_cases.NAMES) + 2
