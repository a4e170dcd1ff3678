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
from tvm_sparse.schedules.cpu.vector_logarithm import (
    acosh,
    asinh,
    atanh,
    log,
    log1p,
    log1p_of_few_terms,
    log10,
)
from tvm_sparse.schedules.cpu.vector_power import power
from tvm_sparse.schedules.cpu.vector_remainder import fmod
from tvm_sparse.schedules.cpu.vector_terms import Terms, written_out

_active: ContextVar[bool] = ContextVar("vector_math", default=False)


EXP, LOG1P, REMAINDER = "tirx.exp", "tirx.log1p", "tirx.fmod"
_OF_LLVM = "tirx.call_llvm_pure_intrin"

LARGEST, SMALL = 8_000, 32
"""Variables of an expression, all written out, that TVM analyses in a second; few of a function."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    EXP: exp,
    "tirx.sigmoid": sigmoid,
    "tirx.tanh": tanh,
    "tirx.erf": erf,
    "tirx.log": log,
    "tirx.log10": log10,
    LOG1P: log1p,
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


def _lowering(name: str, function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return an intrinsic lowering that is ours inside :func:`vector_math`, TVM's elsewhere."""

    def lower(call: Any) -> Any:
        if not _may_be_ours(call):
            return _plain(call)
        if name == EXP and times_written(call.args[0]) > SMALL:
            return _plain(call)
        if _uses(name) <= SMALL or _is_small(call):
            return function(*call.args)
        # Neither this one nor those inside of it: TVM writes them out into each other.
        return tvm_ffi.structural_map(call, (tvm.ir.Call, _plain_if_large))

    return lower


def _may_be_ours(call: Any) -> bool:
    if not _active.get() or not str(call.ty.dtype).startswith(FLOAT_SUMS):
        return False
    return call.op.name != REMAINDER or rounds_once(tvm.target.Target.current())


def _is_small(call: Any) -> bool:
    """Whether the terms of ``call`` stay few if each variable is written out in them."""
    inner = max(map(times_written, call.args))
    outer = any(map(_has_outer, call.args))
    return not outer and (inner == 1 or _uses(call.op.name) * inner <= LARGEST)


def times_written(operand: Any) -> int:
    """Return how often elementary functions in ``operand`` write out what is inside of them."""
    found = [1]

    def see(call: Any) -> None:
        found.append(_uses(_name(call)) * max(map(times_written, call.args), default=1))

    tvm_ffi.structural_walk(operand, (tvm.ir.Call, see))
    return max(found)


@functools.cache
def _uses(name: str) -> int:
    """Return how often a function of ours has its operands if its terms are written out."""
    if name not in _FUNCTIONS:
        return 1
    function = _FUNCTIONS[name]
    operands = [tirx.Var(f"x{i}", FLOAT_SUMS) for i in range(function.__code__.co_argcount)]
    with tvm.target.Target("llvm"):
        return written_out(function(*operands))


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", ""))


def _plain_if_large(call: Any) -> Any:
    return _plain(call) if _uses(_name(call)) > SMALL else call


def _plain(call: Any) -> Any:
    """Return what TVM makes of ``call``, or of each of its lanes.

    LLVM takes its own functions apart; those of the C library are for single numbers.
    """
    if call.op.name == LOG1P and str(call.ty.dtype).startswith(FLOAT_SUMS):
        return log1p_of_few_terms(*call.args)
    lowered = _STOCK[call.op.name]
    scalar, _, lanes = str(call.ty.dtype).partition("x")
    whole = lowered(call)
    if not lanes or (isinstance(whole, tvm.ir.Call) and _name(whole) == _OF_LLVM):
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
