"""Extents that kernels would compute are variables that their tensors bring along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer

from tvm_sparse.ops.emit import changed_block
from tvm_sparse.ops.marks import OPERATOR, WHOLE
from tvm_sparse.passes.graph.called import calling
from tvm_sparse.passes.graph.computed_extents import computed_extents, with_variables
from tvm_sparse.passes.graph.rewrite import same_extent, shape_of_type
from tvm_sparse.schedules.blocks import nodes

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


@tvm.transform.module_pass(opt_level=0, name="PlainExtents")
@dataclass(frozen=True)
class PlainExtents:
    """Make a variable of each computed extent of a kernel's tensors.

    before: ``f(X: (b, (h - 1) // 2 + 3, 64), h, Y: (b, (h - 1) // 2 + 1, 64))``
    after:  ``f(X: (b, n0, 64), Y: (b, n1, 64))``

    Loops over a plane are then cut into tiles as those over any open extent are, and layers of
    different planes may share a kernel. Done where a plane was divided, or a layer computed, and
    where TVM misjudges an extent: what reshapes know of ``64 * n`` stays.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions, and calls without what these no longer need."""
        functions, kept = dict(mod.functions_items()), dict[str, list[int]]()
        for name, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and _computed(func):
                plain = _plain(func)
                kept[name.name_hint] = _needed(plain)
                params = [plain.params[i] for i in kept[name.name_hint]]
                plain = tirx.PrimFunc(params, plain.body, plain.ret_type, attrs=plain.attrs)
                del functions[name]
                renewed = ir.GlobalVar(name.name_hint)
                relax.expr._update_type(renewed, plain.ty)
                functions[renewed] = plain
        if not kept:
            return mod
        plainer = tvm.IRModule(functions, attrs=mod.attrs)

        def instead(name: str, operands: Sequence[Any]) -> tuple[ir.GlobalVar, list[Any]] | None:
            if name not in kept:
                return None
            left = [operands[i] for i in kept[name] if i < len(operands)]
            return plainer.get_global_var(name), left

        return calling(plainer, instead)


def _plain(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with variables for computed extents."""
    names = _extents(func)
    if any(WHOLE in block.annotations for block in nodes(func.body, s_tir.SBlock)):
        func = _domains_of_results(with_variables(func, _forms(names)))
    return with_variables(func, names)


def _extents(func: tirx.PrimFunc) -> list[tuple[Any, tirx.Var]]:
    """Return the computed extents of the parameters with their variables.

    A multiple stays if a tensor inside has another one: ``8 * n`` rows are those of ``n`` planes.
    """
    shapes = (shape_of_type(param.ty) or () for param in func.params)
    blocks = nodes(func.body, s_tir.SBlock)
    inside = [e for block in blocks for held in block.alloc_buffers for e in held.shape]

    def is_part(extent: Any) -> bool:
        others = (e for e in inside if not same_extent(e, extent))
        return any(_multiplied(extent, other) for other in others)

    return computed_extents(e for shape in shapes for e in shape if not is_part(e))


def _multiplied(extent: Any, other: Any) -> bool:
    """Whether both extents are multiples of one symbol."""
    both = [e for e in (extent, other) if isinstance(e, tirx.Mul) and isinstance(e.a, tirx.Var)]
    return (
        len(both) > 1
        and all(isinstance(e.b, tirx.IntImm) for e in both)
        and both[0].a.same_as(both[1].a)
    )


def _forms(names: list[tuple[Any, tirx.Var]]) -> list[tuple[Any, Any]]:
    """Return ``names`` with what operators compute of an extent: half of it, its last position.

    TVM has simplified these: of ``(h - 1) // 2 + 1``, half is ``(h - 1) // 4 + 1``. It spreads the
    number in ``h // 4 * 4`` over a sum.
    """
    analyzer, found = Analyzer(), list[tuple[Any, Any]]()
    for form in (lambda e: e, lambda e: (e + 1) // 2, lambda e: e - 1):
        found += [(analyzer.simplify(form(extent)), form(var)) for extent, var in names]
    for extent, var in names:
        if isinstance(extent, tirx.Mul) and isinstance(extent.b, tirx.IntImm):
            found.append((extent.a, tirx.floordiv(var, extent.b)))
    return [(old, new) for old, new in found if not isinstance(old, tirx.Var | tirx.IntImm)]


def _domains_of_results(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Give the axes of blocks that write all of a tensor, and their loops, its extents."""
    extents: dict[Any, Any] = {}

    def look(realize: Any) -> None:
        block = realize.block
        if WHOLE not in block.annotations:
            return
        (region,) = block.writes
        known = zip(region.region, region.source.shape, strict=True)
        of_axis = {part.min: extent for part, extent in known}
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            if axis.var in of_axis and not isinstance(axis.dom.extent, tirx.IntImm):
                extents[axis.var] = extents[value] = of_axis[axis.var]

    tvm_ffi.structural_walk(func.body, (s_tir.SBlockRealize, look))

    def domain(block: Any) -> Any:
        axes = [_over(axis, extents.get(axis.var)) for axis in block.iter_vars]
        return changed_block(block, iter_vars=axes)

    def loop(old: Any) -> Any:
        extent = extents.get(old.loop_var)
        if extent is None:
            return old
        return tirx.For(old.loop_var, old.min, extent, old.kind, old.body, None, old.annotations)

    body = tvm_ffi.structural_map(func.body, (tirx.For, loop))
    body = tvm_ffi.structural_map(body, (s_tir.SBlock, domain))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _over(axis: tirx.IterVar, extent: Any | None) -> tirx.IterVar:
    """Return an axis of a block over another extent, if there is one."""
    if extent is None:
        return axis
    return tirx.IterVar(Range.from_min_extent(axis.dom.min, extent), axis.var, axis.iter_type)


def _computed(func: tirx.PrimFunc) -> bool:
    """Whether a plane was divided, a layer computed, or an extent is misjudged in ``func``."""
    found: list[Any] = []
    for extent, _ in (extents := _extents(func)):
        tvm_ffi.structural_walk(extent, (_DIVISIONS, found.append))
    if not extents or found or any(_misjudged(extent) for extent, _ in extents):
        return bool(extents)
    return any(OPERATOR in block.annotations for block in nodes(func.body, s_tir.SBlock))


def _misjudged(extent: Any) -> bool:
    """Whether TVM takes a symbol for larger than it is, from the extent of a parameter.

    An extent is not negative, so ``14 * w - 14`` tells that ``w`` is at least 1. TVM does not
    divide the 14 and decides all that asks for ``w < 14`` (``Analyzer::MarkGlobalNonNegValue``).
    """
    sums, products = list[Any](), list[Any]()
    tvm_ffi.structural_walk(extent, ((tirx.Add, tirx.Sub), sums.append))
    tvm_ffi.structural_walk(extent, (tirx.Mul, products.append))
    return bool(sums and products)


def _needed(func: tirx.PrimFunc) -> list[int]:
    """Return the positions of the parameters that are tensors, or that ``func`` uses."""
    used: set[Any] = set()
    tvm_ffi.structural_walk(func.body, (tirx.Var, used.add))
    for param in func.params:
        for extent in shape_of_type(param.ty) or ():
            if not isinstance(extent, int):
                tvm_ffi.structural_walk(extent, (tirx.Var, used.add))
    shapes = [shape_of_type(param.ty) for param in func.params]
    return [i for i, p in enumerate(func.params) if shapes[i] is not None or p in used]
