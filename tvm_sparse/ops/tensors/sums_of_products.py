"""Which functions sum products of two tensors: contractions, whoever wrote them."""

from __future__ import annotations

import math
from typing import Any

import tvm_ffi
from tvm import ir, tirx

SYMBOLIC = 16
"""What a symbolic extent counts as where a number is wanted."""


def sums_products(func: tirx.PrimFunc) -> bool:
    """Whether ``func``, scheduled or not, somewhere adds a product of two elements to a sum.

    The sum of squares of a norm is none: both factors are the same.
    """
    return any(_adds_product(store) for store in _found(func.body, tirx.BufferStore))


def products(func: tirx.PrimFunc) -> int:
    """Return how many products ``func`` adds to sums, symbolic extents being :data:`SYMBOLIC`."""
    stores = [store for store in _found(func.body, tirx.BufferStore) if _adds_product(store)]
    loops = _found(func.body, tirx.For)
    return sum(
        math.prod(
            int(loop.extent) if isinstance(loop.extent, tirx.IntImm) else SYMBOLIC
            for loop in loops
            if _holds(loop, store)
        )
        for store in stores
    )


def _holds(loop: tirx.For, store: tirx.BufferStore) -> bool:
    return any(found.same_as(store) for found in _found(loop.body, tirx.BufferStore))


def _adds_product(store: Any) -> bool:
    """Whether a store is ``sum[i] = sum[i] + x * y`` with two different elements."""
    if not isinstance(store.value, tirx.Add):
        return False
    terms = (store.value.a, store.value.b)
    loads = [isinstance(t, ir.TensorLoad) and t.source.same_as(store.buffer) for t in terms]
    if sum(loads) != 1:
        return False
    added = _without_casts(terms[loads.index(False)])
    if not isinstance(added, tirx.Mul):
        return False
    factors = (_without_casts(added.a), _without_casts(added.b))
    if not all(_found(factor, ir.TensorLoad) for factor in factors):
        return False
    return not tvm_ffi.structural_equal(*factors, map_free_vars=False)


def _without_casts(value: Any) -> Any:
    while isinstance(value, tirx.Cast):
        value = value.value
    return value


def _found(body: Any, wanted: type) -> list[Any]:
    """Return the nodes of a type in ``body``."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (wanted, found.append))
    return found
