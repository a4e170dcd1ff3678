"""Small functions for tests of passes over what kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvm_sparse.passes.finish.stored_numbers import change_numbers


def defined(compute: Callable[..., Any], *types: tuple[tuple[Any, ...], str]) -> tirx.PrimFunc:
    """Return the definition of what ``compute`` makes of tensors of shapes and dtypes."""
    inputs = [te.placeholder(shape, dtype, name=f"X{i}") for i, (shape, dtype) in enumerate(types)]
    made = compute(*inputs)
    outputs = made if isinstance(made, list) else [made]
    return te.create_prim_func([*inputs, *outputs]).without_attr("global_symbol")


def stored_numbers(func: tirx.PrimFunc) -> list[Any]:
    """Return the numbers in what ``func`` stores, in order."""
    found: list[Any] = []

    def seen(number: Any) -> Any:
        found.append(number.value)
        return number

    change_numbers(func.body, seen)
    return found
