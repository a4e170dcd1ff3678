"""Places in memory are as large as what they hold in a call, not as what they could ever hold."""

from __future__ import annotations

from functools import reduce
from typing import Any

import tvm
from tvm import ir, relax, tirx
from tvm.relax.analysis import defined_symbolic_vars

from tvm_sparse.passes.graph.known_extents import KnownExtents
from tvm_sparse.passes.graph.rewrite import op_name

_STOCK = relax.transform.StaticPlanBlockMemory()
_STORAGE, _TENSOR = "memory.alloc_storage", "memory.alloc_tensor"
_LEAST, _LARGEST = "tir_var_lower_bound", "tir_var_upper_bound"

_USUAL = 256
"""What an extent without a largest size counts as while places are planned."""

_KEPT = 1 << 28
"""Bytes of places that are taken whole for the largest extents: what no call touches costs nothing,
and no call brings a new size."""


@tvm.transform.module_pass(opt_level=0, name="PlanPlaces")
class PlanPlaces:
    """Let tensors share places, and the extents of a call say how many bytes a place has.

    before: ``a = builtin.alloc_tensor((n, m)); ...; b = builtin.alloc_tensor((m, m))``
    after:  ``s = alloc_storage((max(n * m, m * m) * 4,)); a = alloc_tensor(s, (n, m)); ...``

    TVM plans places for the largest extents that were promised, and asks for so many bytes in each
    call: an encoder for up to 64 texts of up to 512 tokens took 1.7 GB to read a word. Without a
    promise, only tensors of equal extents share places. Here the plan is made for promised or
    usual extents, and then sized, unless all that was promised is little.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with the tensors of all its functions in places."""
        given = {v.name_hint: func for v, func in mod.functions_items() if _is_open(func)}
        planned = mod.clone()
        for name, func in given.items():
            planned[name] = func.with_attr(_LARGEST, _with_usual(func))
        planned = _STOCK(planned)
        for name, func in given.items():
            if not _is_little(planned[name], func):
                planned[name] = _sized(planned[name], func)
        return relax.transform.Normalize()(planned)


def _is_open(func: Any) -> bool:
    return isinstance(func, relax.Function) and len(defined_symbolic_vars(func)) > 0


def _largest(func: relax.Function) -> dict[str, Any]:
    """Return the promised largest extents of ``func`` by the names of its symbols."""
    return dict((func.attrs or {}).get(_LARGEST, {}))


def _with_usual(func: relax.Function) -> dict[str, Any]:
    """Return a largest extent for each symbol of ``func``: the usual one where none is promised."""
    usual = {s.name: max(_USUAL, 2 * low) for s, (low, _) in _ranges(func).items()}
    return usual | _largest(func)


def _is_little(planned: relax.Function, given: relax.Function) -> bool:
    """Whether all extents have promises, and the places for these have few bytes."""
    if any(most is None for _, most in _ranges(given).values()):
        return False
    places = (_call(b, _STORAGE) for block in planned.body.blocks for b in block.bindings)
    sizes = [place.args[0].values[0] for place in places if place is not None]
    known = [int(size) for size in sizes if isinstance(size, tirx.IntImm)]
    return len(known) == len(sizes) and sum(known) <= _KEPT


def _sized(planned: relax.Function, given: relax.Function) -> relax.Function:
    """Return ``planned`` with places sized for the promises of ``given``.

    Places in branches stay as they are, since TVM plans none there. All extents that are planned
    follow from those of parameters, so that they are known where a place is taken.
    """
    held, extents = dict[relax.Var, list[Any]](), KnownExtents(_ranges(given))
    for block in planned.body.blocks:
        for binding in block.bindings:
            if (tensor := _call(binding, _TENSOR)) is not None:
                size = extents.simplify(_bytes(tensor))
                held.setdefault(tensor.args[0], []).append(size)

    def sized(binding: relax.Binding) -> relax.Binding:
        place, sizes = _call(binding, _STORAGE), held.get(binding.var)
        if place is None or sizes is None:
            return binding
        size = reduce(lambda a, b: extents.simplify(tirx.max(a, b)), sizes)
        args = [relax.ShapeExpr([size]), *place.args[1:]]
        return relax.VarBinding(binding.var, relax.Call(place.op, args, place.attrs, place.ty_args))

    blocks = [
        relax.BindingBlock([sized(b) for b in block.bindings]) for block in planned.body.blocks
    ]
    body = relax.SeqExpr(blocks, planned.body.body)
    return relax.Function(
        planned.params, body, planned.ret_ty, planned.is_pure, given.attrs, planned.span
    )


def _ranges(func: relax.Function) -> dict[Any, tuple[int, int | None]]:
    """Return the promised ranges of the symbols of ``func``."""
    least, largest = dict((func.attrs or {}).get(_LEAST, {})), _largest(func)
    return {
        symbol: (int(least.get(symbol.name, 0)), None if most is None else int(most))
        for symbol in defined_symbolic_vars(func)
        for most in [largest.get(symbol.name)]
    }


def _call(binding: relax.Binding, name: str) -> ir.Call | None:
    """Return the call of operator ``name`` that ``binding`` binds, if it does."""
    value = getattr(binding, "value", None)
    return value if isinstance(value, ir.Call) and op_name(value) == name else None


def _bytes(tensor: ir.Call) -> Any:
    """Return where a tensor ends in its place."""
    _, offset, shape, dtype = tensor.args[:4]
    count = reduce(lambda a, b: a * b, shape.values, tirx.const(1, "int64"))
    bits = count * tvm.DataType(str(dtype.value)).bits
    return offset.value + tirx.indexdiv(bits + 7, tirx.const(8, "int64"))
