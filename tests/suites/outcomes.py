"""What can come of compiling one case of somebody else's test suite, and how to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_sparse_runtime.errors import SparseRuntimeError

RIGHT, REFUSED, INTERNAL, WRONG, CRASHED = "right", "refused", "internal", "wrong", "crashed"
OUTCOMES = (RIGHT, REFUSED, INTERNAL, WRONG, CRASHED)
"""Right, or one of our errors at compile time; the others are bugs."""

_SOUND = (RIGHT, REFUSED)

_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""What the last place of a number is worth, at most, relative to the number."""

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Result:
    """What came of the case ``key`` of the operator ``operator``, and why."""

    key: str
    operator: str
    outcome: str
    reason: str = ""


def broken(results: Iterable[Result]) -> list[str]:
    """Return what is neither right nor refused, and why."""
    return [f"{r.key}: {r.outcome}: {r.reason}" for r in results if r.outcome not in _SOUND]


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
        close = np.isclose(*_comparable(a, b), *_tolerances(a.dtype, rtol, atol), equal_nan=True)
        if not close.all():
            place = tuple(int(i) for i in np.argwhere(~close)[0])
            count = f"{np.count_nonzero(~close)} of {close.size}"
            return f"output {number}: {count} differ, first {a[place]}, not {b[place]}, at {place}"
    return ""


def _tolerances(dtype: np.dtype, rtol: float, atol: float) -> tuple[float, float]:
    """Return the tolerances for ``dtype``: two units in the last place of half precision."""
    if dtype.kind in "iub":
        return 0, 0
    return max(rtol, 2 * _UNITS.get(dtype.name, 0.0)), atol


def _comparable(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return ``arrays`` in a type that NumPy compares with a tolerance."""
    return [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in arrays]


def first_line(error: BaseException) -> str:
    """Return the first line of the message of ``error``."""
    lines = str(error).strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__
