"""What graph passes share: reading shapes and constants, naming constants, one mutator base."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst, SourceName, Span
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_sparse.base.memory import tensor_of
from tvm_sparse.base.names import layer_of
from tvm_sparse.errors import SparseError
from tvm_sparse.passes.graph.builders import blocks_ended

Shape = list[Any]


def constant(value: np.ndarray, name: str = "") -> GenericConst:
    """Return ``value`` as a Relax constant that remembers where it came from.

    ``name`` is the fully qualified name of the weight; it travels in the constant's source span
    and survives every pass that keeps the constant. Large values are shared, not copied.
    """
    plain = relax.const(tensor_of(value))
    if not name:
        return plain
    return GenericConst(plain.value, plain.ty, Span(SourceName(name), 0, 0, 0, 0))


def name_of(const: Any) -> str:
    """Return the weight name that :func:`constant` stored, or an empty string."""
    return const.span.source_name.name if getattr(const, "span", None) is not None else ""


def place_of(const: Any) -> tuple[int, str, str]:
    """Return what tells a constant from all others that live: its memory, name and type."""
    return const.value.data_ptr(), name_of(const), str(const.ty)


def layer_name(weight: Any) -> str:
    """Return the layer that a weight belongs to: its name without a trailing ``.weight``."""
    return layer_of(name_of(weight)) or "(unnamed constant)"


def shape_of(expr: relax.Expr) -> Shape | None:
    """Return extents (int where static) of a tensor expression, ``None`` if unknown."""
    return shape_of_type(getattr(expr, "ty", None))


def shape_of_type(ty: Any) -> Shape | None:
    """Return the same of the type of a tensor."""
    shape = getattr(ty, "shape", None)
    if shape is None:
        return None
    values = shape.values if hasattr(shape, "values") else shape
    return [int(v) if isinstance(v, tirx.IntImm) else v for v in values]


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Return the extents of a tensor expression if all are known integers."""
    shape = shape_of(expr)
    if shape is None or not all(isinstance(e, int) for e in shape):
        return None
    return tuple(shape)


def same_shape(a: Shape | None, b: Shape | None) -> bool:
    """Whether two shapes are known and equal, symbolic extents included."""
    if a is None or b is None or len(a) != len(b):
        return False
    return all(same_extent(x, y) for x, y in zip(a, b, strict=True))


def add_function(builder: relax.BlockBuilder, func: tirx.PrimFunc, hint: str) -> tvm.ir.GlobalVar:
    """Add ``func`` under a fresh name like ``hint``, which is its only one."""
    return builder.add_func(func.without_attr("global_symbol"), hint)


def call_function(
    rewriter: Rewriter, func: tirx.PrimFunc, args: list[Any], ty: Any, hint: str
) -> Any:
    """Add ``func`` under a fresh name like ``hint``, and return its call on ``args``.

    Symbols that extents are computed from become parameters behind the inputs.
    """
    symbols, inputs = _unbound(func), len(args)
    if symbols:
        params = [*func.params[:inputs], *symbols, *func.params[inputs:]]
        func = tirx.PrimFunc(params, func.body, func.ret_type, attrs=func.attrs)
    name = add_function(rewriter.builder_, func, hint)
    return relax.call_tir(name, [*args, *symbols], out_ty=ty)


def _unbound(func: tirx.PrimFunc) -> list[tirx.Var]:
    """Return the variables in the shapes of parameters that are no extent of their own."""
    extents = [e for p in func.params for e in (shape_of_type(p.ty) or ())]
    bound = {e for e in extents if isinstance(e, tirx.Var)}
    found: dict[tirx.Var, None] = {}
    for extent in extents:
        if isinstance(extent, tirx.Var | int):
            continue
        tvm_ffi.structural_walk(extent, (tirx.Var, found.setdefault))
    return [var for var in found if var not in bound]


def same_extent(x: Any, y: Any) -> bool:
    """Whether two extents are equal, symbolic ones structurally."""
    if isinstance(x, int) or isinstance(y, int):
        return isinstance(x, int) and isinstance(y, int) and x == y
    return bool(tvm_ffi.structural_equal(x, y, map_free_vars=False))


def op_name(expr: relax.Expr) -> str:
    """Return the operator name of a call without ``relax.``, else an empty string."""
    if not isinstance(expr, relax.Call):
        return ""
    return str(getattr(expr.op, "name", "")).removeprefix("relax.")


_raised: ContextVar[SparseError | None] = ContextVar("raised", default=None)


@contextlib.contextmanager
def errors_through_tvm() -> Iterator[None]:
    """Let a :class:`SparseError` of a rule reach the caller: TVM turns it into a RuntimeError."""
    token = _raised.set(None)
    try:
        yield
    except RuntimeError:
        original = _raised.get()
        if original is None:
            raise
        raise original from None
    finally:
        _raised.reset(token)


@mutator
class Rewriter(PyExprMutator):
    """A forward walk that asks :attr:`rule` for a replacement of each call.

    The rule gets this rewriter and the call with its arguments already rewritten, and returns an
    expression or ``None`` (keep). :attr:`original` is the same call before its arguments changed,
    :attr:`module` what is swept, as it was before.
    """

    def __init__(
        self, mod: tvm.IRModule, rule: Callable[[Rewriter, relax.Call], Any | None]
    ) -> None:
        super().__init__(mod)
        self.module, self.rule = mod, rule
        self.original: Any = None
        self.changed = False

    def visit_call_(self, call: relax.Call) -> Any:
        """Rewrite one call."""
        rewritten = self.visit_expr_post_order(call)
        self.original = call
        return self._apply(rewritten)

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> Any:
        """Rewrite one tuple element."""
        rewritten = relax.TupleGetItem(self.visit_expr(item.tuple_value), item.index)
        self.original = item
        return self._apply(rewritten)

    def _apply(self, expr: relax.Expr) -> Any:
        try:
            replaced = self.rule(self, expr)
        except SparseError as error:
            _raised.set(error)
            raise
        self.changed |= replaced is not None
        return expr if replaced is None else replaced

    def resolve(self, expr: relax.Expr) -> Any:
        """Return the bound value behind variables, as far as bindings are known."""
        while isinstance(expr, relax.Var):
            bound = self.lookup_binding(expr)
            if bound is None:
                return expr
            expr = bound
        return expr

    def constant(self, expr: relax.Expr) -> GenericConst | None:
        """Return the constant that ``expr`` is or is bound to."""
        value = self.resolve(expr)
        return value if isinstance(value, GenericConst) else None

    def emit(self, expr: relax.Expr) -> Any:
        """Bind ``expr`` now, so that later look-ups see it."""
        return self.builder_.emit(expr)


def rewrite(mod: tvm.IRModule, rule: Callable[[Rewriter, relax.Call], Any | None]) -> tvm.IRModule:
    """Return ``mod`` with ``rule`` applied to every Relax function; ``mod`` itself is untouched.

    It is ``mod`` itself where the rule replaces nothing.
    """
    rewriter = Rewriter(mod, rule)
    for name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            with blocks_ended(rewriter):
                rewriter.builder_.update_func(name, rewriter.visit_expr(func))
    if not rewriter.changed:
        return mod
    cleanup = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
    return tvm.transform.Sequential(cleanup)(rewriter.builder_.get())


def count_uses(func: relax.Function) -> dict[Any, int]:
    """Return how often each variable of ``func`` is read (variables that are never: absent)."""
    uses: dict[Any, int] = {}

    def look(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call):
            operands = list(expr.args)
        elif isinstance(expr, relax.Tuple):
            operands = list(expr.fields)
        elif isinstance(expr, relax.TupleGetItem):
            operands = [expr.tuple_value]
        else:
            operands = [expr.body] if isinstance(expr, relax.SeqExpr) else []
        for operand in operands:
            if isinstance(operand, relax.Var):
                uses[operand] = uses.get(operand, 0) + 1

    relax.analysis.post_order_visit(func.body, look)
    return uses
