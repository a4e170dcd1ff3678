"""A place in memory has one tensor of a shape, which all who want it share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax

from tvm_sparse.passes.graph.rewrite import op_name

_SHARED = ("memory.alloc_tensor", "reshape")
_MAKE_SHAPE = "vm.builtin.make_shape"


@tvm.transform.module_pass(opt_level=0, name="ShareTensors")
class ShareTensors:
    """Let one tensor stand for all of one shape and type that are planned into one place.

    before: ``a = alloc_tensor(s, (n, 64)); f(x, a); ...; b = alloc_tensor(s, (n, 64)); g(y, b)``
    after:  ``a = alloc_tensor(s, (n, 64)); f(x, a); ...; g(y, a)``

    The same holds for views of another shape. Each that is made takes as long as a small kernel.
    What is read stays what it was: the plan of memory gives a place away when nothing reads it.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such tensors made once."""
        return _shared(mod, lambda call: op_name(call) in _SHARED)


@tvm.transform.module_pass(opt_level=0, name="ShareShapes")
class ShareShapes:
    """Let one shape stand for all of the same extents.

    before: ``p = make_shape(heap, n, 64); ...; q = make_shape(heap, n, 64)`` --> after: ``p`` twice
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such shapes made once."""
        return _shared(mod, _makes_shape)


def _makes_shape(call: ir.Call) -> bool:
    return isinstance(call.op, relax.ExternFunc) and call.op.global_symbol == _MAKE_SHAPE


def _shared(mod: tvm.IRModule, is_made: Callable[[ir.Call], bool]) -> tvm.IRModule:
    """Return ``mod`` where each call of which ``is_made`` is true is made once in a function."""
    result = tvm.IRModule(dict(mod.functions_items()), mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            result.update_func(var, _once(func, is_made))
    return relax.transform.Normalize()(result)


def _once(func: relax.Function, is_made: Callable[[ir.Call], bool]) -> relax.Function:
    """Return ``func`` with later calls like an earlier one replaced by its variable.

    Those in branches stay: what one of them makes, the other has not.
    """
    made: dict[tuple[str, ...], list[tuple[list[Any], relax.Var]]] = {}
    first: dict[relax.Var, relax.Var] = {}

    def bound(binding: relax.Binding) -> relax.Binding:
        value = getattr(binding, "value", None)
        if isinstance(value, relax.Var):
            first[binding.var] = first.get(value, value)
        if not isinstance(value, ir.Call) or not is_made(value):
            return binding
        args = [first.get(a, a) if isinstance(a, relax.Var) else a for a in value.args]
        same = made.setdefault(tuple(map(str, args)), [])
        for earlier, var in same:
            if all(map(_equal, earlier, args)):
                first[binding.var] = var
                return relax.VarBinding(binding.var, var)
        same.append((args, binding.var))
        return binding

    blocks = [relax.BindingBlock([bound(b) for b in block.bindings]) for block in func.body.blocks]
    body = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)


def _equal(one: Any, other: Any) -> bool:
    """Whether two arguments are the same variables, extents and names."""
    return bool(tvm_ffi.structural_equal(one, other, map_free_vars=False))
