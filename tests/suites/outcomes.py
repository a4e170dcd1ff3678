"""What can come of compiling one case of somebody else's test suite, and how to tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_sparse_runtime.errors import SparseRuntimeError

RIGHT, REFUSED, INTERNAL, WRONG, CRASHED = "right", "refused", "internal", "wrong", "crashed"
OUTCOMES = (RIGHT, REFUSED, INTERNAL, WRONG, CRASHED)
"""Right, or one of our errors at compile time; the others are bugs."""

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Result:
    """What came of the case ``key`` of the operator ``operator``, and why."""

    key: str
    operator: str
    outcome: str
    reason: str = ""


def outcome_of(
    compiled: Callable[[], Callable[[], Arrays]], expected: Arrays, *, rtol: float, atol: float
) -> tuple[str, str]:
    """Return the outcome and its reason.

    ``compiled`` compiles the case and returns a function that runs it. Only compiling may refuse:
    whatever a call raises is an internal error.
    """
    try:
        run = compiled()
    except SparseRuntimeError as error:
        return REFUSED, error.found if error.where == "model" else f"{error.where}: {error.found}"
    except Exception as error:
        return INTERNAL, f"compile: {type(error).__name__}: {first_line(error)}"
    try:
        found = run()
    except Exception as error:
        return INTERNAL, f"call: {type(error).__name__}: {first_line(error)}"
    reason = difference(found, expected, rtol=rtol, atol=atol)
    return (WRONG, reason) if reason else (RIGHT, "")


def difference(found: Arrays, expected: Arrays, *, rtol: float, atol: float) -> str:
    """Return what differs first, or nothing: dtypes, shapes and NaN are equal, values close."""
    if len(found) != len(expected):
        return f"{len(found)} outputs, not {len(expected)}"
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {number}: {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        tolerances = (rtol, atol) if a.dtype.kind == "f" else (0, 0)
        close = np.isclose(a, b, *tolerances, equal_nan=True)
        if not close.all():
            place = tuple(int(i) for i in np.argwhere(~close)[0])
            count = f"{np.count_nonzero(~close)} of {close.size}"
            return f"output {number}: {count} differ, first {a[place]}, not {b[place]}, at {place}"
    return ""


def first_line(error: BaseException) -> str:
    """Return the first line of the message of ``error``."""
    lines = str(error).strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__
