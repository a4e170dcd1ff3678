"""Loops that LLVM's loop vectoriser gets wrong are compiled without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from tvm_sparse.schedules.blocks import PARALLEL, SERIAL, VECTORIZED

_NO_VECTORISER = "-vectorize-loops:bool=false"


def careful(target: Target, mod: tvm.IRModule) -> Target:
    """Return ``target``, without LLVM's loop vectoriser if a function of ``mod`` needs that.

    LLVM 22 takes ``x[32 * i + j % 32]``, read beside other elements of ``x`` in a loop over ``j``,
    for neighbours beyond the multiple of 32, too. The mask of any power of two is suspect.
    Vectors that schedules make are not concerned.
    """
    functions = (f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    if target.kind.name != "llvm" or not any(map(has_masked_loop, functions)):
        return target
    options = [*target.attrs.get("cl-opt", []), _NO_VECTORISER]
    return Target({**target.export(), "cl-opt": [str(option) for option in options]})


def has_masked_loop(func: tirx.PrimFunc) -> bool:
    """Whether an innermost loop without vectors takes its variable modulo a power of two."""
    loops: list[Any] = []
    values: dict[Any, Any] = {}

    def see(node: Any) -> None:
        if isinstance(node, tirx.For):
            loops.append(node)
        else:
            variables = (axis.var for axis in node.block.iter_vars)
            values.update(zip(variables, node.iter_values, strict=True))

    tvm_ffi.structural_walk(func.body, ((tirx.For, s_tir.SBlockRealize), see))
    masks = [(loop, mask) for loop in loops if _innermost(loop) for mask in _masks(loop.body)]
    if not masks:
        return False
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))
    return any(_stays(mask, loop.loop_var, values, analyzer) for loop, mask in masks)


def _innermost(loop: tirx.For) -> bool:
    """Whether LLVM sees no loop and no vectors inside ``loop``."""
    if int(loop.kind) not in (SERIAL, PARALLEL):
        return False
    inner: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, inner.append))
    return not any(int(other.kind) in (SERIAL, PARALLEL, VECTORIZED) for other in inner)


def _masks(body: Any) -> Iterator[Any]:
    """Yield the expressions in ``body`` that are a remainder of a division by a power of two."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, ((tirx.FloorMod, tirx.Mod, tirx.BitwiseAnd), found.append))
    for node in found:
        if _modulus(node):
            yield node


def _modulus(node: Any) -> int:
    """Return the power of two that ``node`` is a remainder of; 0 if it is none."""
    least = int(isinstance(node, tirx.BitwiseAnd))  # its operand is one less than the power
    value = int(node.b) + least if isinstance(node.b, tirx.IntImm) else 0
    return value if value > 1 and value & (value - 1) == 0 else 0


def _stays(mask: Any, loop_var: Any, values: dict[Any, Any], analyzer: Analyzer) -> bool:
    """Whether ``mask`` depends on ``loop_var`` when all that is known of loops is used."""

    def place(var: Any) -> Any:
        return placed(values[var]) if var in values else var

    def placed(expr: Any) -> Any:
        return tvm_ffi.structural_map(expr, (tirx.Var, place))

    simple = analyzer.simplify(placed(mask))
    return any(_reads(left, loop_var) for left in _masks(simple))


def _reads(expr: Any, var: Any) -> bool:
    return any(v.same_as(var) for v in tirx.analysis.undefined_vars(expr))
