"""Loops that LLVM's loop vectoriser gets wrong are split, or compiled without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from tvm_sparse.schedules.blocks import PARALLEL, SERIAL, UNROLLED, map_functions
from tvm_sparse.schedules.variables import uses

_NO_VECTORISER = "-vectorize-loops:bool=false"


def careful(target: Target, mod: tvm.IRModule) -> Target:
    """Return ``target``, without LLVM's loop vectoriser if a function of ``mod`` needs that.

    LLVM 22 takes ``x[32 * i + j % 32]``, read beside other elements of ``x`` in a loop over ``j``,
    for neighbours beyond the multiple of 32, too. The mask of any power of two is suspect.
    Everything else of the module loses the vectoriser then, epilogues of schedules, too: what
    :class:`SplitMaskedLoops` can split is better split.
    """
    functions = (f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    if not any(map(has_masked_loop, functions)):
        return target
    options = [*target.attrs.get("cl-opt", []), _NO_VECTORISER]
    return Target({**target.export(), "cl-opt": [str(option) for option in options]})


@tvm.transform.module_pass(opt_level=0, name="SplitMaskedLoops")
class SplitMaskedLoops:
    """Make two loops of one whose variable is taken modulo a power of two.

    before: ``for j in range(96): y[j] = x[j // 32, j % 32]``
    after: ``for a, b in T.grid(3, 32): y[32 * a + b] = x[a, b]``

    A function that still has a masked loop then stays as it is.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such loops split."""
        return map_functions(mod, _without_masks)


def _without_masks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with its masked loops split; as it is if one would be left."""
    found = masked_loops(func)
    if not found:
        return func
    body = _split(func.body, found)
    split = tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)
    return func if masked_loops(split) else split


def _split(body: Any, found: dict[Any, int]) -> Any:
    """Return ``body`` with loops split: of each variable ``found``, by the power of two there."""

    def parts(loop: tirx.For) -> Any:
        old = loop.loop_var
        by = found.get(old, 1)
        if by == 1 or not _splits(loop, by):
            return loop
        index = str(old.ty.dtype)
        outer, inner = (tirx.Var(f"{old.name}_{i}", index) for i in range(2))
        place = outer * by + inner
        same = tvm_ffi.structural_map(
            loop.body, (tirx.Var, lambda var: place if var.same_as(old) else var)
        )
        zero, size = tirx.const(0, index), tirx.const(by, index)
        many = tirx.const(int(loop.extent) // by, index)
        return tirx.For(outer, zero, many, loop.kind, tirx.For(inner, zero, size, SERIAL, same))

    return tvm_ffi.structural_map(body, (tirx.For, parts))


def _splits(loop: tirx.For, by: int) -> bool:
    """Whether ``loop`` begins at zero and has a multiple of ``by`` steps."""
    extents = isinstance(loop.extent, tirx.IntImm) and isinstance(loop.min, tirx.IntImm)
    return extents and int(loop.min) == 0 and int(loop.extent) % by == 0


def has_masked_loop(func: tirx.PrimFunc) -> bool:
    """Whether an innermost loop without vectors takes its variable modulo a power of two."""
    return bool(masked_loops(func))


def masked_loops(func: tirx.PrimFunc) -> dict[Any, int]:
    """Return the variables of such loops, each with the smallest power of two of its masks."""
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
        return {}
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))
    found: dict[Any, int] = {}
    for loop, mask in masks:
        if _stays(mask, loop.loop_var, values, analyzer):
            size = _modulus(mask)
            found[loop.loop_var] = min(size, found.get(loop.loop_var, size))
    return found


def _innermost(loop: tirx.For) -> bool:
    """Whether LLVM sees no loop and no vectors, which it does not widen, inside ``loop``."""
    if int(loop.kind) not in (SERIAL, PARALLEL):
        return False
    inner: list[Any] = []
    tvm_ffi.structural_walk(loop.body, ((tirx.For, tirx.Ramp), inner.append))
    return all(isinstance(n, tirx.For) and int(n.kind) == UNROLLED for n in inner)


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
    return any(uses(left, loop_var) for left in _masks(simple))
