"""Products by cuBLASLt, found in the process, and computed by its stand-in."""

from __future__ import annotations

import itertools

import pytest

from tests.runtime import library_cases

TYPES = (
    *(("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16")),
    *(("float16", "float32"), ("bfloat16", "float32")),
)
CASE = {
    "size": (20, 24, 16),
    "padding": 0,
    "dtype": "float16",
    "out_dtype": "float16",
    "epilogue": 0,
    "workspace": library_cases.WORKSPACE,
}


def run(cases, **variables):
    return library_cases.run("blas_cases", cases, **variables)


def test_products_are_exact_on_small_integers():
    sizes = ((20, 24, 16), (1, 8, 8), (33, 8, 40))
    cases = [
        {**CASE, "size": size, "padding": padding, "dtype": dtype, "out_dtype": out, "epilogue": e}
        for size, padding, (dtype, out), e in itertools.product(sizes, (0, 8), TYPES, range(8))
    ]
    results, told = run([*cases, *cases[:10]])
    assert set(results) == {(0, True)}
    assert not told


def test_shapes_beyond_those_that_are_kept_are_computed_too():
    small = {**CASE, "size": (1, 8, 8)}
    results, told = run([CASE, {**small, "shapes": 4096}, {**small, "size": (2, 8, 8)}, CASE])
    assert results == [(0, True)] * 4
    assert not told


def test_no_workspace_is_no_failure():
    assert run([{**CASE, "workspace": 0}])[0] == [(0, True)]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("how", "why"), [("find", "CUBLAS_STATUS_NOT_SUPPORTED"), ("multiply", "EXECUTION_FAILED")]
)
def test_what_is_not_computed_is_said_once_and_leaves_the_output_alone(how, why):
    results, told = run([CASE] * 3, FAKE_CUBLASLT=how)
    assert results == [(1, True)] * 3
    (line,) = told.splitlines()
    assert line.startswith("tvm-sparse: cuBLASLt does not compute 20 x 24 x 16")
    assert why in line and line.endswith("our own kernel runs")


@pytest.mark.grid
@pytest.mark.parametrize(
    "variables",
    [
        {"FAKE_CUBLASLT": "old"},
        {"FAKE_CUBLASLT": "start"},
        {"TVM_SPARSE_CUBLASLT": "off"},
        {"TVM_SPARSE_CUBLASLT": "/nowhere/libcublasLt.so.13"},
    ],
)
def test_without_a_library_nothing_is_computed(variables):
    assert run([CASE], **variables) == ([(1, True)], "")
