"""The package onnxruntime, also where another module stands in its place."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from tvm_sparse.errors import InputError

NAME = "onnxruntime"


class _State:
    real: ModuleType | None = None


def stand_in(module: ModuleType) -> None:
    """Let ``import onnxruntime`` give ``module`` from now on."""
    found = sys.modules.get(NAME)
    if found is not None and found.__name__ == NAME:
        _State.real = found
    sys.modules[NAME] = module


def stand_aside() -> None:
    """Undo :func:`stand_in`."""
    found = sys.modules.get(NAME)
    if found is not None and found.__name__ != NAME:
        del sys.modules[NAME]
        if _State.real is not None:
            sys.modules[NAME] = _State.real


def onnxruntime(purpose: str) -> ModuleType:
    """Return onnxruntime itself, which ``purpose`` needs.

    Raises
    ------
    InputError
        It is not installed.
    """
    found = sys.modules.get(NAME)
    if found is not None and found.__name__ == NAME:
        return found
    if _State.real is not None:
        return _State.real
    if found is not None:
        del sys.modules[NAME]
    try:
        _State.real = importlib.import_module(NAME)
    except ImportError as error:
        todo = "pip install 'tvm-sparse[onnxruntime]'"
        raise InputError(purpose, "onnxruntime is not installed", todo=todo) from error
    finally:
        if found is not None:
            sys.modules[NAME] = found
    return _State.real
