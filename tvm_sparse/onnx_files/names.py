"""Names of layers of an ONNX model, and other names that users know them by."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

_SCOPES = "pkg.torch.onnx.name_scopes"
"""What PyTorch's exporter notes of the modules around a node."""


def label(node: Any) -> str:
    """Return how messages call a node: its name, or its operator and first output."""
    return node.name or f"{node.op_type} of '{next(iter(node.output), '')}'"


def layer_name(weight: str) -> str:
    """Return the layer's name: the weight ``fc.weight`` belongs to ``fc``."""
    return weight.removesuffix(".weight") or weight


def node_names(node: Any) -> Iterator[str]:
    """Yield the names that mean ``node``: its own, and its module's in the exported network."""
    if node.name:
        yield node.name
        module = node.name.strip("/").rpartition("/")[0].replace("/", ".")
        yield from _both(module)
    noted = {p.key: p.value for p in getattr(node, "metadata_props", ())}.get(_SCOPES, "[]")
    try:
        scopes = ast.literal_eval(noted)
    except (ValueError, SyntaxError):
        return
    if isinstance(scopes, list):
        yield from (n for s in scopes[-2:-1] if isinstance(s, str) for n in _both(s))


def _both(module: str) -> Iterator[str]:
    """Yield the name of a module and that of its weight."""
    if module:
        yield module
        yield f"{module}.weight"
