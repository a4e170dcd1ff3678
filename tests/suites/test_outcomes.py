"""Outcomes tell right from wrong, refused from broken."""

from __future__ import annotations

import numpy as np
import pytest

from tests.suites.outcomes import INTERNAL, REFUSED, RIGHT, WRONG, outcome_of
from tvm_sparse.errors import InputError

ONES = np.ones((2, 3), np.float32)


def _outcome(found: np.ndarray, expected: np.ndarray = ONES) -> str:
    return outcome_of(lambda: lambda: [found], [expected], rtol=1e-5, atol=1e-5)[0]


def test_equal_arrays_are_right():
    assert _outcome(ONES * np.float32(1 + 1e-6)) == RIGHT
    nan = np.full(3, np.nan, np.float32)
    assert _outcome(nan, nan) == RIGHT


@pytest.mark.parametrize(
    "found",
    [ONES.astype(np.float64), ONES[:1], ONES * np.float32(1.001), ONES * np.float32(np.nan)],
    ids=["dtype", "shape", "value", "nan"],
)
def test_other_arrays_are_wrong(found):
    assert _outcome(found) == WRONG


def test_integers_are_compared_exactly():
    large = np.array([10**9], np.int64)
    assert _outcome(large + 1, large) == WRONG


def test_more_outputs_are_wrong():
    assert outcome_of(lambda: lambda: [ONES, ONES], [ONES], rtol=0, atol=0)[0] == WRONG


def test_only_compiling_may_refuse():
    def refuse(*_args: object) -> list[np.ndarray]:
        raise InputError("layer 'a'", "is too odd")

    def fail(*_args: object) -> list[np.ndarray]:
        raise RuntimeError("cannot\nat all")

    def check(compiled: object) -> tuple[str, str]:
        return outcome_of(compiled, [ONES], rtol=0, atol=0)

    assert check(refuse) == (REFUSED, "layer 'a': is too odd")
    assert check(fail) == (INTERNAL, "compile: RuntimeError: cannot")
    assert check(lambda: refuse)[0] == INTERNAL
    assert check(lambda: fail) == (INTERNAL, "call: RuntimeError: cannot")
