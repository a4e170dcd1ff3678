"""Converters of powers, shifts and divisors of integers, polynomials and zeta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tvm import relax

from tvm_sparse.frontends.converters.extents import shape_of
from tvm_sparse.frontends.converters.operators import called, converter, dtype_of, emit
from tvm_sparse.ops.integers import common_divisor, power, shift
from tvm_sparse.ops.linalg.polynomials import RECURRENCES, polynomial
from tvm_sparse.ops.linalg.zeta import zeta


@converter("pow.Tensor_Tensor")
def _power(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, power)


@converter("bitwise_left_shift.Tensor", "__lshift__.Tensor")
def _left_shift(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, lambda x, by: shift(x, by, left=True))


@converter("bitwise_right_shift.Tensor", "__rshift__.Tensor")
def _right_shift(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, lambda x, by: shift(x, by, left=False))


@converter("gcd.default")
def _common_divisor(importer: Any, node: torch.fx.Node) -> Any | None:
    return _of_integers(importer, node, common_divisor)


@converter(*(f"special_{name}.default" for name in RECURRENCES))
def _polynomial(importer: Any, node: torch.fx.Node) -> Any:
    family = RECURRENCES[str(node.target).split(".")[1].removeprefix("special_")]
    return _in_double(importer, node, lambda x, n: polynomial(x, n, family))


@converter("special_zeta.default")
def _zeta(importer: Any, node: torch.fx.Node) -> Any:
    return _in_double(importer, node, zeta)


def _in_double(importer: Any, node: torch.fx.Node, define: Callable[..., Any]) -> Any:
    """Call the function that ``define`` describes on float64 operands of the result's shape."""
    operands = [emit(importer, relax.op.astype(x, "float64")) for x in importer.retrieve_args(node)]
    shape = shape_of(importer, node)
    operands = [emit(importer, relax.op.broadcast_to(x, shape)) for x in operands]
    found = called(importer, node, define, *operands)
    return emit(importer, relax.op.astype(found, dtype_of(node)))


def _of_integers(importer: Any, node: Any, define: Callable[..., Any]) -> Any | None:
    """Call the function that ``define`` describes on operands of the result's type and shape."""
    dtype = dtype_of(node)
    if "int" not in dtype:
        return None
    operands = [emit(importer, relax.op.astype(x, dtype)) for x in importer.retrieve_args(node)]
    shapes = [list(a.meta["val"].shape) for a in node.args]
    if shapes[0] != shapes[1]:
        shape = shape_of(importer, node)
        operands = [emit(importer, relax.op.broadcast_to(x, shape)) for x in operands]
    return called(importer, node, define, *operands)
