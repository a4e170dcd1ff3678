"""Code of a model, while it is traced: what it calls by name are forms that follow extents."""

from __future__ import annotations

import builtins
import contextlib
import dis
import math
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import nn

from tvm_sparse.frontends.modules.open_numbers import MATH, NUMPY, OpenFloat, OpenInt, forms_of

_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "tvm", "tvm_sparse"} - {"__main__"}
"""Packages whose functions make no numbers of a model's extents, or are known to the tracer."""

_MOST = 4096
"""Functions of a model that are looked at."""

_NAMESPACES = {math: MATH, np: NUMPY}

_NAMED = {int: OpenInt, float: OpenFloat, **forms_of(math, MATH), **forms_of(np, NUMPY)}
_FORMS = {id(original): form for original, form in _NAMED.items()}
"""By the identity of what a name stands for: what it stands for while a model is traced."""


@contextlib.contextmanager
def followed_code(module: nn.Module) -> Iterator[None]:
    """While it is entered, ``int(x.shape[0])`` in code of ``module`` leaves the extent open.

    Python makes numbers of what ``__int__`` and ``__float__`` return, and PyTorch then takes the
    extent for the example's. Functions that ``module`` runs get code in which such names are
    others; those of ``math`` and NumPy are replaced for all. The other names stay behind: a thread
    may be in the midst of such code.
    """
    before: list[tuple[FunctionType, CodeType]] = []
    namespaces = [(space, name) for space, names in _NAMESPACES.items() for name in names]
    originals = [getattr(space, name) for space, name in namespaces]
    try:
        for function in _functions(module):
            names = _called(function)
            if not names:
                continue
            before.append((function, function.__code__))
            function.__globals__.update({_alias(name): form for name, form in names.items()})
            function.__code__ = _renamed(function.__code__, set(names))
        for space, names in _NAMESPACES.items():
            for original, form in forms_of(space, names).items():
                setattr(space, original.__name__, form)
        yield
    finally:
        for (space, name), original in zip(namespaces, originals, strict=True):
            setattr(space, name, original)
        for function, code in before:
            function.__code__ = code


def _alias(name: str) -> str:
    return f"__followed_{name}__"


def _renamed(code: CodeType, names: set[str]) -> CodeType:
    """Return ``code``, and that inside of it, with other names for ``names``."""
    constants = (_renamed(c, names) if isinstance(c, CodeType) else c for c in code.co_consts)
    found = (_alias(name) if name in names else name for name in code.co_names)
    return code.replace(co_names=tuple(found), co_consts=tuple(constants))


def _called(function: FunctionType) -> dict[str, Any]:
    """Return the forms by the names under which ``function`` reads what they stand for.

    A name that is an attribute's as well stays as it is.
    """
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    known = function.__globals__
    values = {name: known.get(name, getattr(builtins, name, None)) for name in names}
    found = {name: _FORMS[id(value)] for name, value in values.items() if id(value) in _FORMS}
    if found:
        for code in _codes(function.__code__):
            for step in dis.get_instructions(code):
                if step.opname != "LOAD_GLOBAL" and step.opcode in dis.hasname:
                    found.pop(step.argval, None)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(module: nn.Module) -> list[FunctionType]:
    """Return the functions of the classes of ``module``, and those that they name."""
    held = [v for part in module.modules() for v in vars(part).values()]
    waiting: list[Any] = [v for v in held if isinstance(v, FunctionType)]
    waiting += {kind for part in module.modules() for kind in type(part).__mro__}
    found: dict[Any, None] = {}
    seen: set[int] = set()
    while waiting and len(found) < _MOST:
        value = waiting.pop()
        value = getattr(value, "__func__", getattr(value, "fget", value))  # of classes, properties
        if id(value) in seen or _is_foreign(value):
            continue
        seen.add(id(value))
        if isinstance(value, type):
            waiting += vars(value).values()
        elif isinstance(value, FunctionType):
            found[value] = None
            waiting += _named(value)
        if hasattr(value, "__wrapped__"):
            waiting.append(value.__wrapped__)
    return list(found)


def _named(function: FunctionType) -> Iterator[Any]:
    """Yield the functions and classes that ``function`` names, of modules that it names, too."""
    names = [name for code in _codes(function.__code__) for name in code.co_names]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # empty
            if isinstance(cell.cell_contents, FunctionType):
                yield cell.cell_contents
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and not _is_foreign(value):
            every = (vars(value).get(other) for other in names)
            yield from (v for v in every if isinstance(v, FunctionType | type))
        elif isinstance(value, FunctionType | type):
            yield value


def _is_foreign(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return not isinstance(name, str) or name.partition(".")[0] in _FOREIGN
