"""Vet the program inside a ``.pt2`` file: PyTorch evaluates parts of its text as Python.

Deserialising resolves operator names by attribute look-up from ``torch``, evaluates size
expressions, imports modules that tree contexts name, and compiles source text made of the graph's
names. So only names, operators and expressions of a known form may pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tvm_sparse.base import json_text
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.pt2_expression import is_expression
from tvm_sparse.frontends.program.left_float import vetted_custom

_HIGHER_ORDER = "cond|wrap_with_set_grad_enabled|wrap_with_autocast"
_SCALAR = "add|sub|mul|floordiv|truediv|mod|pow|neg|abs|eq|ne|lt|le|gt|ge|and_|or_|getitem"
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.(?!from_file\b)\w+\.\w+"
    rf"|torch\.ops\.higher_order\.({_HIGHER_ORDER})|_operator\.({_SCALAR})|torch\._C\._set_grad_enabled"
    r"|torch\.sym_(max|min|int|float|not|ite|sum|sqrt)|math\.(ceil|floor|trunc|sqrt)"
)
_NAME = re.compile(r"[A-Za-z_]\w*|")
_QUALIFIED = re.compile(r"[\w.\-]*")


def vetted(program: dict[str, Any], where: str) -> dict[str, Any]:
    """Return ``program`` (``models/model.json`` of a ``.pt2`` file) without its free text.

    Comments, guards and stack traces are dropped, devices become the CPU.

    Raises
    ------
    InputError
        A name, operator, expression or structure is not of the form that an exporter writes.
    """
    return {**_vet(program, where), "guards_code": []}


def _vet(node: Any, where: str, key: str = "") -> Any:
    """Return a checked copy of the JSON value ``node``, found under ``key``."""
    if isinstance(node, list):
        return [_vet(item, where, key) for item in node]
    if isinstance(node, dict):
        return _vet_object(node, where, key)
    if isinstance(node, str) and key in _RULES and not _RULES[key](node):
        raise _refusal(where, key, node)
    return node


def _vet_object(node: dict[str, Any], where: str, key: str) -> dict[str, Any]:
    if key == "metadata":
        stack = node.get("nn_module_stack", "")
        kept = {"nn_module_stack": stack} if stack and stack.isprintable() else {}
        custom = vetted_custom(node.get("custom", ""))
        return {**kept, "custom": custom} if custom else kept
    if set(node) == {"type", "index"} and isinstance(node["type"], str):
        return {"type": "cpu", "index": None}
    for name, value in node.items():
        if key in _KEY_RULES and not _KEY_RULES[key](name):
            raise _refusal(where, key, name)
        if name in _FORBIDDEN and value:
            raise _refusal(where, name, str(value))
    return {name: _vet(value, where, name) for name, value in node.items()}


def _is_tree(text: str) -> bool:
    """Whether a tree specification holds plain keys only, so that reading it imports nothing."""
    try:
        return _plain_tree(json_text.parsed(text)[1])
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return False


def _plain_tree(spec: dict[str, Any]) -> bool:
    context = json_text.parsed(spec["context"]) if spec["context"] is not None else None
    keys = context if isinstance(context, list) else [context]
    plain = all(not isinstance(item, (dict, list)) for item in keys)
    return plain and all(_plain_tree(child) for child in spec["children_spec"])


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_RULES: dict[str, Callable[[str], bool]] = {
    "target": _matches(_OPERATOR),
    "as_operator": _matches(_OPERATOR),
    "expr_str": is_expression,
    "in_spec": _is_tree,
    "out_spec": _is_tree,
    **dict.fromkeys(("name", "as_name", "forward_arg_names"), _matches(_NAME)),
    **dict.fromkeys(
        ("parameter_name", "buffer_name", "tensor_constant_name", "fqn"), _matches(_QUALIFIED)
    ),
}
_KEY_RULES: dict[str, Callable[[str], bool]] = {
    "range_constraints": is_expression,
    **dict.fromkeys(
        ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values"), _matches(_NAME)
    ),
}
_FORBIDDEN = {"as_custom_obj", "custom_obj_values", "custom_obj", "class_fqn", "token"}


def _refusal(where: str, key: str, text: str) -> InputError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return InputError(
        where,
        f"its program has {shown!r} as {key}, which torch.export writes for no plain model",
        "ATen operators, size expressions and names only",
        "export the model again with torch.export.save if you trust where it comes from",
    )
