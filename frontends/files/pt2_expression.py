"""Size expressions of a ``.pt2`` file, which PyTorch evaluates as Python: only short arithmetic."""

from __future__ import annotations

import ast
import re

_FUNCTIONS = {
    *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt"),
    *("FloorToInt", "CeilDiv", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv"),
    *("TruncToInt", "TruncToFloat", "RoundToInt", "ToFloat", "Identity", "Max", "Min", "Abs"),
    *("Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "True", "False", "Add", "Mul"),
    *("Pow", "Integer", "Float", "Rational", "Symbol", "Equality", "Unequality"),
    *("StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"),
}
_ASSUMPTIONS = {"integer", "positive", "nonnegative", "nonzero"}
_DECIMAL = re.compile(r"-?\d{1,20}(\.\d{1,20})?(e-?\d{1,2})?")
"""How SymPy writes a number that is not whole, as text: ``Float('1.5', precision=53)``."""

_POWERS = {"Pow", "PowByNatural", "FloatPow"}
_SYMBOL = re.compile(r"(s|u|zf|zuf)\d+")
_NODES = (
    *(ast.Expression, ast.Load, ast.Name, ast.Constant, ast.Call, ast.keyword, ast.operator),
    *(ast.BinOp, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop),
)
_NOT = (ast.LShift, ast.RShift, ast.MatMult, ast.BitXor, ast.In, ast.NotIn, ast.Is, ast.IsNot)
_LONGEST, _LARGEST, _EXPONENT, _NESTED_POWERS, _PRECISION = 4096, 1 << 64, 16, 2, 64


def is_expression(text: str) -> bool:
    """Whether ``text`` is arithmetic over size symbols and the exporter's own functions.

    Powers have small constant exponents and are nested twice at most, so that no number grows
    beyond what can be written down; factorials and shifts are none of it.
    """
    if len(text) > _LONGEST:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return all(map(_plain, ast.walk(tree))) and _nested_powers(tree) <= _NESTED_POWERS
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _plain(node: ast.AST) -> bool:
    """Whether a node of the syntax tree, looked at alone, may be in an expression."""
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return name in _FUNCTIONS or _SYMBOL.fullmatch(name) is not None
        case ast.Constant(value=value):
            return _plain_constant(value)
        case ast.keyword(arg=name, value=ast.Constant(value=bool())):
            return name in _ASSUMPTIONS
        case ast.keyword(arg="precision", value=ast.Constant(value=int() as bits)):
            return bits <= _PRECISION
    refused = (*_NOT, ast.keyword, ast.Call)
    return isinstance(node, _NODES) and not isinstance(node, refused)


def _plain_constant(value: object) -> bool:
    if isinstance(value, str):
        is_number = _DECIMAL.fullmatch(value) is not None and abs(float(value)) <= _LARGEST
        return is_number or _SYMBOL.fullmatch(value) is not None
    return isinstance(value, (int, float)) and abs(value) <= _LARGEST


def _nested_powers(node: ast.AST) -> int:
    """Return how many powers contain each other at most; many where an exponent is not small."""
    inner = max(map(_nested_powers, ast.iter_child_nodes(node)), default=0)
    match node:
        case ast.BinOp(op=ast.Pow(), right=exponent):
            return inner + 1 if _small(exponent) else _LARGEST
        case ast.Call(func=ast.Name(id=name), args=[_, exponent]) if name in _POWERS:
            return inner + 1 if _small(exponent) else _LARGEST
        case ast.Call(func=ast.Name(id=name)) if name in _POWERS:
            return _LARGEST
    return inner


def _small(exponent: ast.AST) -> bool:
    """Whether an exponent is a small number, as ``2``, ``-1``, ``Integer(2)`` or ``0.5``."""
    match exponent:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _small(inner)
        case ast.Call(func=ast.Name(id="Integer" | "Float"), args=[inner]):
            return _small(inner)
        case ast.Call(func=ast.Name(id="Rational"), args=[first, second]):
            return _small(first) and _small(second)
        case ast.Constant(value=int() | float() as number):
            return abs(number) <= _EXPONENT
        case ast.Constant(value=str() as text):
            return _DECIMAL.fullmatch(text) is not None and abs(float(text)) <= _EXPONENT
    return False
