"""What decides whether a batch goes through a network in parts, and in which."""

from __future__ import annotations

import math
from typing import Any

from tvm import relax

from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import op_name, shape_of_type, static_shape

MOST_PARTS = 64
"""Each part is a call in the program, and its results are operands of what joins them."""


def batch_of(main: relax.Function) -> int:
    """Return the extent that the first axes of all inputs share if it can be a batch, else 1.

    Rows of a matrix are none, unless of integers (tokens, of which each becomes a row): weights
    would be read again for every few of them.
    """
    extents = set()
    for param in main.params:
        shape, plain = static_shape(param) or (), "float" in str(param.ty.dtype)
        extents.add(shape[0] if len(shape) > 1 + plain else 1)
    return max(1, extents.pop()) if len(extents) == 1 else 1


def part_of(batch: int, values: list[Any], limit: int) -> int:
    """Return the largest divisor of ``batch`` with which no value takes more than ``limit`` bytes.

    If that made too many parts, the smallest that does not.
    """
    sizes = [math.prod(s) for v in values if (s := static_shape(v)) and s[0] == batch]
    item = 4 * max(sizes, default=0) / batch
    divisors = [d for d in range(1, batch + 1) if batch % d == 0 and batch // d <= MOST_PARTS]
    return max(d for d in divisors if d == divisors[0] or d * item <= limit)


def handed_on(main: relax.Function) -> float:
    """Return how much layers hand on to others for each element of inputs and outputs.

    Element-wise steps are fused into layers, and the last layer's result is an output.
    """

    def size(value: Any) -> int:
        shapes = map(shape_of_type, getattr(value.ty, "fields", [value.ty]))
        static = (s for s in shapes if s and all(isinstance(extent, int) for extent in s))
        return sum(map(math.prod, static))

    results = [
        binding.var
        for binding in main.body.blocks[0].bindings
        if isinstance(binding.value, relax.Call) and op_name(binding.value) not in ELEMENTWISE
    ]
    outputs = size(main.body.body)
    copied = sum(map(size, main.params)) + outputs
    return (sum(map(size, results)) - outputs) / max(1, copied)
