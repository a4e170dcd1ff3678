"""Numbers beside tensors, on the left above all: types, signs, divisions by zero as in PyTorch."""

from __future__ import annotations

import operator
from functools import partial

import pytest
import torch

import tvm_sparse as ts
from tests.edges import Uses, with_edges, wrong

PLAIN = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, torch.add, torch.sub, torch.div, torch.floor_divide),
    *(torch.remainder, torch.pow, torch.xlogy),
    *(partial(torch.div, rounding_mode=mode) for mode in ("floor", "trunc")),
    *(partial(torch.add, alpha=2), partial(torch.sub, alpha=2), partial(torch.rsub, alpha=2)),
)
BITS = (
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor),
    *(torch.bitwise_left_shift, torch.bitwise_right_shift),
)
FRACTIONS = torch.tensor([3.0, -3.0, 2.5, -2.5, 0.0, -0.0, 7.0, -7.0, 0.5, 1e-3, torch.inf])
WHOLE = torch.tensor([3, -3, 2, -2, 7, -7, 1, -1, 5])
INPUTS = {
    "float32": FRACTIONS,
    "float64": FRACTIONS.double(),
    "float16": FRACTIONS.half(),
    "int64": WHOLE,
    "int8": WHOLE.to(torch.int8),
    "uint8": torch.tensor([3, 2, 7, 1, 100, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False]),
}


NUMBERS = (-7, 0, 2.5, True)


def uses_of(x: torch.Tensor, number: float) -> dict[str, object]:
    """Return what PyTorch computes of ``x`` with ``number`` on either side."""
    found = {}
    for i, function in enumerate((*PLAIN, *BITS)):
        sides = {
            "left": partial(_left, function, number),
            "right": partial(_right, function, number),
        }
        for side, use in sides.items():
            try:
                use(x)
            except (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError):
                continue
            if x.dtype != torch.bool or "shift" not in getattr(function, "__name__", ""):
                found[f"{i} {side}"] = use
    return found


def _left(function, number, x):
    return function(number, x)


def _right(function, number, x):
    return function(x, number)


@pytest.mark.parametrize("dtype", INPUTS)
def test_most_functions_take_numbers(dtype):
    assert sum(len(uses_of(INPUTS[dtype], number)) for number in NUMBERS) > 60


@pytest.mark.grid(10)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", INPUTS)
def test_numbers_beside_tensors(dtype, number):
    x = INPUTS[dtype]
    assert wrong(uses_of(x, number), x, rtol=2e-3 if dtype == "float16" else 1e-5) == {}


def test_zeros_keep_their_sign():
    x = with_edges(4, 16)
    uses = {
        "difference": lambda x: 1 / (0 - x),
        "floor": lambda x: 1 / (x // 7),
        "negative floor": lambda x: 1 / (x // -7.5),
        "floor of zero": lambda x: 1 / (0 // x),
        "floor of a constant": lambda x: torch.floor_divide(torch.tensor(0.0), x),
    }
    assert wrong(uses, x) == {}


def test_a_shift_of_a_boolean_is_refused_by_name():
    with pytest.raises(ts.SparseError, match="shift"):
        ts.compile(Uses({"y": lambda x: x << 1}), (INPUTS["bool"],))


def test_numbers_of_a_wider_type_than_the_tensor_without_axes():
    uses = {
        name: partial(_left, getattr(torch, name), torch.tensor(7.5))
        for name in ("hypot", "fmax", "fmin", "maximum", "atan2", "fmod", "remainder")
    }
    assert wrong(uses, INPUTS["float16"], rtol=2e-3) == {}
