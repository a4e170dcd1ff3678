"""The operators that compute each element by itself, with what passes need to know of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from tvm_sparse.ops import ieee

Function = Callable[..., np.ndarray]
Scalar = Callable[..., Any]
Bound = Callable[..., float]


@dataclass(frozen=True)
class Elementwise:
    """One operator, whose elements depend on the operands' elements at the same place only.

    Parameters
    ----------
    operands
        Tensors that it reads; they may be broadcast.
    numpy
        The operator on arrays, ``None`` if no pass needs it. NaN stands for an unknown value there:
        it must give NaN where the result depends on it.
    integers
        The operator on arrays of integers, where ``numpy`` would not know unknown values.
    exact
        Whether ``numpy`` gives the operator's own bits. Constants are folded with it then, else
        in double precision.
    fuses
        Whether a GPU kernel of two convolutions may compute it between them.
    costly
        Whether it takes longer than to look up a byte.
    scalar
        The operator on numbers of a function's definition, ``None`` if no pass needs it.
    bound
        The largest absolute value of the result, given those of the operands, ``None`` if there is
        none or no pass needs it.
    """

    operands: int = 1
    numpy: Function | None = None
    integers: Function | None = None
    exact: bool = False
    fuses: bool = False
    costly: bool = False
    scalar: Scalar | None = None
    bound: Bound | None = None


def _two(function: Function, scalar: Scalar, bound: Bound | None = None) -> Elementwise:
    return Elementwise(2, function, exact=True, fuses=True, scalar=scalar, bound=bound)


def _costly(function: Function, bound: Bound | None = None) -> Elementwise:
    return Elementwise(1, function, fuses=True, costly=True, bound=bound)


def _same(largest: float) -> float:
    return largest


def _one(_largest: float) -> float:
    return 1.0


def _gelu(x: np.ndarray) -> np.ndarray:
    wide = np.asarray(x, np.float64)
    erf = np.vectorize(math.erf, otypes=[float])(wide * 0.5**0.5)
    return np.asarray(wide * 0.5 * (1 + erf), x.dtype)


def _chosen(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what a condition chooses, NaN where it is unknown."""
    found, unknown = np.where(condition, x, y), np.isnan(condition)
    return np.where(unknown, np.nan, found) if unknown.any() else found


PLAIN, FUSES = Elementwise(), Elementwise(fuses=True)

ELEMENTWISE: dict[str, Elementwise] = {
    "add": _two(np.add, operator.add, operator.add),
    "subtract": _two(np.subtract, ieee.subtract, operator.add),
    "multiply": _two(np.multiply, ieee.multiply, operator.mul),
    "divide": _two(np.divide, ieee.divide),
    "maximum": _two(np.maximum, tirx.max, max),
    "minimum": _two(np.minimum, tirx.min, max),
    "negative": Elementwise(1, np.negative, exact=True, fuses=True, bound=_same),
    "round": Elementwise(1, np.rint, exact=True, scalar=tirx.nearbyint),
    "sqrt": Elementwise(1, np.sqrt, exact=True),
    "exp": Elementwise(1, np.exp, exact=True, fuses=True, costly=True),
    "zeros_like": Elementwise(1, np.zeros_like, exact=True),
    "ones_like": Elementwise(1, np.ones_like, exact=True),
    "nn.relu": Elementwise(1, lambda x: np.maximum(x, 0), fuses=True, bound=_same),
    "nn.silu": _costly(lambda x: x / (1 + np.exp(-x)), _same),
    "sigmoid": _costly(lambda x: 1 / (1 + np.exp(-x)), _one),
    "tanh": _costly(np.tanh, _one),
    "erf": _costly(np.vectorize(math.erf, otypes=[float])),
    "nn.gelu": _costly(_gelu, _same),
    "astype": Elementwise(fuses=True, bound=_same),
    **dict.fromkeys(("clip", "nn.leakyrelu"), FUSES),
    "abs": Elementwise(1, np.abs, exact=True, scalar=tirx.abs, bound=_same),
    "power": Elementwise(2, np.power),
    "rsqrt": Elementwise(1, lambda x: 1 / np.sqrt(x)),
    **dict.fromkeys(("ceil", "cos", "floor", "log", "sign"), PLAIN),
    **dict.fromkeys(("sin", "square", "nn.gelu_tanh", "nn.softplus"), PLAIN),
    "greater": Elementwise(2, integers=np.greater, scalar=tirx.GT),
    "greater_equal": Elementwise(2, integers=np.greater_equal),
    "less": Elementwise(2, integers=np.less),
    "less_equal": Elementwise(2, integers=np.less_equal),
    "equal": Elementwise(2, integers=np.equal),
    "not_equal": Elementwise(2, integers=np.not_equal),
    "where": Elementwise(3, _chosen, exact=True, scalar=tirx.Select),
    # By tensor: scales and zero points are numbers.
    **dict.fromkeys(("quantize", "dequantize"), Elementwise(3)),
}
"""By the operator's name in Relax."""
