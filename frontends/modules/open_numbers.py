"""Python's own functions of numbers leave open extents open: ``int(x.shape[0])``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_OPEN = torch.SymInt, torch.SymFloat


class _Type(type):
    """The type of a stand-in for ``int`` or ``float``, which is asked what these are asked."""

    own: type
    convert: Callable[[Any], Any]

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """Convert: open numbers by ``convert``, all others as its ``own`` does."""
        single = len(args) == 1 and not named and isinstance(args[0], _OPEN)
        return cls.convert(args[0]) if single else cls.own(*args, **named)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.own)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.own)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.own

    def __hash__(cls) -> int:
        return hash(cls.own)


def _whole(x: Any) -> Any:
    """Return an extent as it is, and a quotient of extents cut to a whole number."""
    if isinstance(x, torch.SymInt):
        return x
    found = math.trunc(x)
    cut = isinstance(found, torch.SymInt) and "TruncToInt" in str(found.node.expr)
    return int(x) if cut else found


class OpenInt(int, metaclass=_Type):
    """What stands for ``int``."""

    own = int
    convert = staticmethod(_whole)


class OpenFloat(float, metaclass=_Type):
    """What stands for ``float``."""

    own = float
    convert = staticmethod(torch.sym_float)


def _of_open(original: Any, write: Callable[..., Any]) -> Any:
    """Return ``original``, but ``write`` where an argument, or a part of one, is open."""

    def function(*args: Any, **named: Any) -> Any:
        values = [v for a in args for v in (a if isinstance(a, list | tuple) else [a])]
        is_open = not named and any(isinstance(value, _OPEN) for value in values)
        return write(*args) if is_open else original(*args, **named)

    return function


def _tensor(x: Any) -> torch.Tensor:
    """Return ``x`` in double precision: an exported program may have no logarithm of a number."""
    return torch.scalar_tensor(x, dtype=torch.float64)


def _logarithm(x: Any, base: Any = None) -> torch.Tensor:
    found = _tensor(x).log()
    return found if base is None else found / _tensor(base).log()


MATH: dict[str, Callable[..., Any]] = {
    "sqrt": torch.sym_sqrt,
    "log": _logarithm,
    "log2": lambda x: _tensor(x).log2(),
    "log10": lambda x: _tensor(x).log10(),
}
"""By the name in ``math``, and in NumPy: the same of open numbers."""

NUMPY: dict[str, Callable[..., Any]] = {
    **MATH,
    "prod": math.prod,
    "floor": lambda x: torch.sym_float(math.floor(x)),
    "ceil": lambda x: torch.sym_float(math.ceil(x)),
}


def forms_of(namespace: Any, written: dict[str, Callable[..., Any]]) -> dict[Any, Any]:
    """Return by each function of ``namespace`` that is ``written`` what stands for it."""
    pairs = ((getattr(namespace, name), write) for name, write in written.items())
    return {original: _of_open(original, write) for original, write in pairs}
