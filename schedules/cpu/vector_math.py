"""Elementary functions become terms of whole vectors where LLVM would call libm once a lane."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.registry import rounds_once
from tvm_sparse.schedules.cpu import vector_trigonometry as circle
from tvm_sparse.schedules.cpu.vector_exponentials import erf, exp, sigmoid, tanh
from tvm_sparse.schedules.cpu.vector_logarithm import acosh, asinh, atanh, log, log1p, log10
from tvm_sparse.schedules.cpu.vector_power import power
from tvm_sparse.schedules.cpu.vector_remainder import fmod
from tvm_sparse.schedules.cpu.vector_terms import Terms

_active: ContextVar[bool] = ContextVar("vector_math", default=False)


REMAINDER = "tirx.fmod"
_OF_LLVM = "tirx.call_llvm_pure_intrin"

LARGEST, SMALL = 8_000, 32
"""Variables of an expression, all written out, that TVM analyses in a second; few of a function."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tirx.exp": exp,
    "tirx.sigmoid": sigmoid,
    "tirx.tanh": tanh,
    "tirx.erf": erf,
    "tirx.log": log,
    "tirx.log10": log10,
    "tirx.log1p": log1p,
    "tirx.asinh": asinh,
    "tirx.acosh": acosh,
    "tirx.atanh": atanh,
    "tirx.sin": circle.sin,
    "tirx.cos": circle.cos,
    "tirx.tan": circle.tan,
    "tirx.asin": circle.asin,
    "tirx.acos": circle.acos,
    "tirx.atan": circle.atan,
    "tirx.atan2": circle.atan2,
    "tirx.pow": power,
    REMAINDER: fmod,
}

for name in (*_FUNCTIONS, "tirx.nearbyint", "tirx.rsqrt"):
    # TVM would take a loop apart for some of them, though each has vector code.
    if not tvm.ir.Op.get(name).get_attr("TVectorizable"):
        tvm.ir.register_op_attr(name, "TVectorizable", True)


def _plain(call: Any) -> Any:
    """Return what TVM makes of ``call``, or of each of its lanes.

    LLVM takes its own functions apart; those of the C library are for single numbers.
    """
    lowered = _STOCK[call.op.name]
    scalar, _, lanes = str(call.ty.dtype).partition("x")
    whole = lowered(call)
    if not lanes or getattr(getattr(whole, "op", None), "name", "") == _OF_LLVM:
        return whole
    terms = Terms()
    operands = [terms.bind(operand) for operand in call.args]
    ones = [
        lowered(tirx.call_intrin(scalar, call.op, *(_lane(operand, lane) for operand in operands)))
        for lane in range(int(lanes))
    ]
    places = [tirx.const(lane, "int32") for lane in range(int(lanes))]
    return terms.around(tirx.Shuffle(ones, places))


def _lane(vector: Any, lane: int) -> Any:
    return tirx.Shuffle([vector], [tirx.const(lane, "int32")])


def _lowering(name: str, function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return an intrinsic lowering that is ours inside :func:`vector_math`, TVM's elsewhere."""

    def lower(call: Any) -> Any:
        if not _may_be_ours(call):
            return _plain(call)
        terms = Terms()
        return terms.around(_flat(terms, call, LARGEST // _uses(name)))

    return lower


def _flat(terms: Terms, call: Any, room: int) -> Any:
    """Return ``call`` and those of its operands that are ours, too, as one chain of ``terms``.

    Functions with more than ``room`` uses of their operands are called lane by lane.
    """

    def operand(other: Any, _flat_part: Callable[[Any], Any]) -> Any:
        name = str(getattr(other.op, "name", ""))
        if name not in _FUNCTIONS or not _may_be_ours(other):
            return other
        uses = _uses(name)
        if uses <= max(room, SMALL):
            return _flat(terms, other, room // uses)
        operands = [terms.flat(inner, operand) for inner in other.args]
        return terms.flat(_plain(tirx.call_intrin(str(other.ty.dtype), other.op, *operands)))

    operands = [terms.flat(inner, operand) for inner in call.args]
    return terms.chained(_FUNCTIONS[call.op.name](*operands))


@functools.cache
def _uses(name: str) -> int:
    """Return how often a function has its operands if all of its terms are written out."""
    function, terms = _FUNCTIONS[name], Terms()
    operands = [tirx.Var(f"x{i}", FLOAT_SUMS) for i in range(function.__code__.co_argcount)]
    with tvm.target.Target("llvm"):
        return terms.written_out(terms.flat(function(*operands)))


def _may_be_ours(call: Any) -> bool:
    if not _active.get() or not str(call.ty.dtype).startswith(FLOAT_SUMS):
        return False
    if call.op.name == REMAINDER and not rounds_once(tvm.target.Target.current()):
        return False
    if any(map(_has_branch, call.args)):
        return False
    return _uses(call.op.name) <= SMALL or not any(map(_has_outer, call.args))


def _has_branch(operand: Any) -> bool:
    """Whether ``operand`` reads only under a condition: what is bound is read in any case."""
    found: list[Any] = []
    tvm_ffi.structural_walk(operand, (tvm.ir.Call, found.append))
    return any(getattr(call.op, "name", "") == "tirx.if_then_else" for call in found)


def _has_outer(operand: Any) -> bool:
    """Whether ``operand`` has a variable that is bound around it: it may stand for many terms."""
    inside: set[Any] = set()
    used: set[Any] = set()
    tvm_ffi.structural_walk(operand, (tirx.Let, lambda let: inside.add(let.var)))
    tvm_ffi.structural_walk(operand, (tirx.Var, used.add))
    return any(
        isinstance(var.ty, tvm.ir.PrimType) and str(var.ty.dtype).startswith("float")
        for var in used - inside
    )


def _stock(op: Any) -> Callable[[Any], Any]:
    """Return how TVM lowers ``op``; else a function of the C library."""
    name = op.name.removeprefix("tirx.")

    def extern(call: Any) -> Any:
        # The C library has one of each width.
        dtype = str(call.ty.dtype)
        return tirx.call_pure_extern(dtype, name + "f" * (dtype == FLOAT_SUMS), *call.args)

    if name in ("asinh", "acosh", "atanh", "fmod"):
        return extern
    keys = (
        f"{target}.{kind}"
        for target in ("llvm", "default")
        for kind in ("FLowerIntrinsic", "FLegalize")
    )
    return next(rule for rule in map(op.get_attr, keys) if rule is not None)


_STOCK = {name: _stock(tvm.ir.Op.get(name)) for name in _FUNCTIONS}

for name, function in _FUNCTIONS.items():
    rule = _lowering(name, function)
    tirx.op.register_intrin_lowering(name, "llvm", f=rule, level=99)


@contextlib.contextmanager
def vector_math() -> Iterator[None]:
    """Build these functions of fp32 numbers as polynomials; NaN and infinities stay right.

    TVM keeps one lowering an intrinsic for the whole process; outside this context, and in other
    threads, the registered one hands over to TVM's own.
    """
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)
