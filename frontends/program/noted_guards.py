"""Conditions that a saved program notes as text: ``(L['x'].size()[0] % 4) == 0``.

What PyTorch noted as expressions while it traced is lost when a program is saved. The text is read
here, not run: it may come from anybody's file.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.alone import ALONE
from tvm_sparse.frontends.program.asked_conditions import Condition
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients

_MOST_BITS, _LARGEST_POWER = 64, 16


def _power(base: Any, exponent: Any) -> Any:
    """Return a power that can be written down."""
    if not isinstance(exponent, int | float) or abs(exponent) > _LARGEST_POWER:
        raise ValueError(exponent)
    if isinstance(base, int) and base.bit_length() > _MOST_BITS:
        raise ValueError(base)
    return base**exponent


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: torch.sym_not,
    ast.And: operator.and_,
    ast.Or: operator.or_,
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": lambda *values: functools.reduce(torch.sym_max, values),
    "min": lambda *values: functools.reduce(torch.sym_min, values),
    "abs": abs,
    "round": round,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
    "math.log2": torch._sym_log2,  # type: ignore[attr-defined]
    "torch.sym_float": torch.sym_float,
    "torch._sym_log2": torch._sym_log2,  # type: ignore[attr-defined]
    "torch._sym_sqrt": torch._sym_sqrt,  # type: ignore[attr-defined]
}

_METHODS = {"size", "stride", "storage_offset"}
"""Of tensors."""


def noted_guards(program: torch.export.ExportedProgram) -> list[Condition]:
    """Return the conditions on open extents that ``program`` notes as text.

    Raises
    ------
    UnsupportedError
        One has no form here.
    """
    inputs = dict(_inputs(program))
    with ALONE, WholeQuotients():
        found = [_condition(text, inputs) for text in getattr(program, "_guards_code", ())]
    return [condition for condition in dict.fromkeys(found) if condition is not None]


def _condition(text: str, inputs: Mapping[str, Any]) -> Condition | None:
    """Return a condition; ``None`` if it is of inputs whose extents are all closed, and true."""
    try:
        value = _value(ast.parse(text, mode="eval").body, inputs)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise UnsupportedError(
            "model",
            f"holds if {text}, a condition that is not known here",
            "conditions on the extents of inputs, in whole numbers",
            "compile the nn.Module that was exported",
        ) from error
    if isinstance(value, torch.SymBool):
        condition = Condition(value.node.expr)
        return condition if condition.symbols else None
    return None


def _value(node: ast.expr, inputs: Mapping[str, Any]) -> Any:  # noqa: PLR0911
    """Return what a part of a condition is, in PyTorch's numbers of open extents.

    Raises
    ------
    KeyError, ValueError
        It is something else.
    """
    value = functools.partial(_value, inputs=inputs)
    match node:
        case ast.Constant(value=bool() | int() | float() as number):
            return number
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
            return _OPERATORS[type(op)](value(left), value(right))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](value(operand))
        case ast.BoolOp(op=op, values=values):
            return functools.reduce(_OPERATORS[type(op)], map(value, values))
        case ast.Subscript(value=ast.Call(func=ast.Attribute()) as extents, slice=ast.Constant(n)):
            return value(extents)[n]
        case ast.Call(func=ast.Attribute(value=tensor, attr=name), args=[]) if name in _METHODS:
            return getattr(inputs[ast.unparse(tensor)], name)()
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _FUNCTIONS[ast.unparse(function)](*map(value, arguments))
    return inputs[ast.unparse(node)]


def _inputs(program: torch.export.ExportedProgram) -> Iterator[tuple[str, Any]]:
    """Yield what the text may call each input, and what stands for it in the program.

    ``def forward(self, *x)`` is told of as ``L['x'][0]`` or ``L['x_0']``, and all inputs as
    ``L['flat_args'][0]``.
    """
    specs = program.graph_signature.input_specs
    given = {spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT}
    nodes = program.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in nodes if node.name in given]
    assert program.call_spec.in_spec is not None
    args, kwargs = pytree.tree_unflatten(values, program.call_spec.in_spec)
    signature = program.module_call_graph[0].signature
    names = (signature.forward_arg_names if signature is not None else None) or ()
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    for place, value in enumerate(values):
        yield f"L['flat_args'][{place}]", value
    for name, tree in named.items():
        numbered = re.fullmatch(r"(.+)_(\d+)", name)
        for path, value in pytree.tree_leaves_with_path(tree):
            yield f"L['{name}']{pytree.keystr(path)}", value
            if numbered:
                yield f"L['{numbered[1]}'][{numbered[2]}]{pytree.keystr(path)}", value
