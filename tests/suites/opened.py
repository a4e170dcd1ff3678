"""PyTorch's own samples of its operators with one open axis, run at several of its sizes."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.export import Dim

import tvm_sparse as ts
from tests.suites import opinfo
from tests.suites.opened_samples import Opened, opened
from tests.suites.outcomes import Arrays, Result, difference, first_line
from tests.suites.sizes import outcome_at_sizes

TITLE = "PyTorch's OpInfo samples with one open axis"
VERSION = opinfo.VERSION
operator_of = opinfo.operator_of

AXES = (0, -1)
"""Which axes of the first tensor are opened, one in each case; the last of a line is its first."""

TRIED = 8
"""Samples of an operator of which the first one is taken that can be opened."""

MOST = 64
"""The largest size of the range, if that of the example is not larger."""

SCALED = 1e-5
"""What sums may be off, relative to the largest one."""

UNDETERMINED = ("linalg.cholesky_ex", "linalg.pinv.singular", "take_along_dim")
"""Operators whose samples have no definite result at other sizes: factors of matrices that have
none, inverses of singular values that rounding alone tells from zero, indices that lie outside."""

TOO_LARGE = ("nn.functional.conv_transpose3d",)
"""Operators whose sample, opened, is no layer: a window of 37 x 37 x 37, which takes 4e12 products,
nearly all with zeros between elements."""


def cases() -> list[str]:
    """Return the keys of all samples, some of which may not exist."""
    keys = []
    for name, op in sorted(opinfo.operators().items()):
        known = {str(d).removeprefix("torch.") for d in op.supported_dtypes("cpu")}
        dtype = next((d for d in ("float32", "int64") if d in known), None)
        if dtype and name not in (*UNDETERMINED, *TOO_LARGE):
            keys += [f"{name} {dtype} {axis}" for axis in AXES]
    return keys


def check(key: str) -> Result | None:
    """Compile one sample with an open axis; ``None`` where it has none, or is refused closed."""
    name, dtype, axis = key.split()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            operator = opinfo.operators()[name].op
            found = (opened(operator, s, int(axis)) for s in opinfo.samples(name, dtype, TRIED))
            case = next(
                c for c in found if c is not None and (axis == "0" or c.inputs[0].dim() > 1)
            )
            expected = [_expected(name, case, size) for size in (case.size, *case.sizes)]
        except (Exception, StopIteration):
            return None
        told = _outcome(name, case, expected)
    return None if told is None else Result(key, name, *told)


def _expected(name: str, case: Opened, size: int) -> Arrays:
    case.call.inputs = case.at(size)
    torch.manual_seed(0)
    return opinfo.comparable(name, case.call, opinfo.arrays(case.call(*case.at(size))))


def _outcome(name: str, case: Opened, expected: list[Arrays]) -> tuple[str, str] | None:
    """Return the outcome and its reason, None if the closed sample is refused as well."""

    def compiled(**shapes: Any) -> Any:
        return ts.compile(case.call, case.at(case.size), config=opinfo.CONFIG, **shapes)

    def run(library: Any, size: int) -> Arrays:
        case.call.inputs = case.at(size)
        return opinfo.arrays(library(*case.at(size)))

    dim = Dim("n", min=case.low, max=max(MOST, 3 * case.size))
    return outcome_at_sizes(
        case,
        expected,
        compiled=lambda: compiled(dynamic_shapes=case.shapes(dim)),
        closed=compiled,
        run=run,
        differs=lambda found, wanted: _differs(name, case, found, wanted),
    )


def _differs(name: str, case: Opened, found: Arrays, wanted: Arrays) -> str:
    try:
        found = opinfo.comparable(name, case.call, found)
    except Exception as error:  # places outside of the tensor
        return first_line(error)
    reason = difference(found, wanted, rtol=opinfo.RTOL, atol=opinfo.ATOL)
    exact = reason and not opinfo.more_exact(name, case.call, found, wanted, SCALED)
    return "" if exact else reason
