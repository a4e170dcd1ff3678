"""Convolutions by cuDNN, found in the process, and computed by its stand-in."""

from __future__ import annotations

import itertools

import pytest

from tests.runtime import library_cases

CASE = {
    "size": (2, 7, 6, 8, 16),
    "taps": (3, 3),
    "borders": (1, 1),
    "strides": (1, 1),
    "dilation": (1, 1),
    "dtype": "float16",
    "out_dtype": "float16",
    "epilogue": 0,
    "workspace": library_cases.WORKSPACE,
}
WINDOWS = (
    {},
    {"taps": (1, 1), "borders": (0, 0), "strides": (2, 2)},
    {"taps": (7, 7), "borders": (3, 3), "strides": (2, 2), "size": (1, 9, 9, 3, 8)},
    {"taps": (3, 2), "borders": (2, 0), "strides": (1, 2), "dilation": (2, 1)},
)
BEHIND = (0, 1, 3, 5, 7)
"""Sums of a bias, a residual and a ReLU, none without a bias."""


def run(cases, **variables):
    return library_cases.run("dnn_cases", cases, **variables)


def test_convolutions_are_exact_on_small_integers():
    types = ("float32", "float16", "bfloat16")
    cases = [
        {**CASE, **window, "dtype": dtype, "out_dtype": dtype, "epilogue": epilogue}
        for window, dtype, epilogue in itertools.product(WINDOWS, types, BEHIND)
    ]
    results, told = run([*cases, *cases[:10]])
    assert set(results) == {(0, True)}
    assert not told


@pytest.mark.grid
@pytest.mark.parametrize(
    ("change", "variables", "why"),
    [
        ({}, {"FAKE_CUDNN": "find"}, "CUDNN_STATUS_NOT_SUPPORTED"),
        ({}, {"FAKE_CUDNN": "room"}, "CUDNN_STATUS_NOT_SUPPORTED"),
        ({}, {"FAKE_CUDNN": "convolve"}, "CUDNN_STATUS_EXECUTION_FAILED"),
        ({"workspace": 0}, {}, "CUDNN_STATUS_NOT_SUPPORTED"),
        ({"offset": 2}, {}, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER"),
    ],
)
def test_what_is_not_computed_is_said_once_and_leaves_the_output_alone(change, variables, why):
    results, told = run([{**CASE, **change}] * 3, **variables)
    assert results == [(1, True)] * 3
    (line,) = told.splitlines()
    what = "2 x 7 x 6 x 8 to 16 features, 3 x 3 taps"
    assert line == f"tvm-sparse: cuDNN does not compute {what} ({why}); our own kernel runs"


@pytest.mark.grid
@pytest.mark.parametrize(
    "variables",
    [
        {"FAKE_CUDNN": "old"},
        {"FAKE_CUDNN": "start"},
        {"TVM_SPARSE_CUDNN": "off"},
        {"TVM_SPARSE_CUDNN": "/nowhere/libcudnn.so.9"},
    ],
)
def test_without_a_library_nothing_is_computed(variables):
    assert run([CASE], **variables) == ([(1, True)], "")
