"""Where a value comes from: a tensor of the file, something made of such tensors, or neither."""

from __future__ import annotations

from typing import Any

from tvm_sparse.onnx_files.operators import attributes
from tvm_sparse.onnx_files.scopes import MOVING, Scope, Stored


def stored_behind(scope: Scope, name: str) -> tuple[Scope, Stored, bool] | None:
    """Return the tensor that the value ``name`` is, its scope, and whether it is transposed."""
    home, turned = scope.home(name) if name else None, False
    while home is not None:
        if name in home.stored:
            return home, home.stored[name], turned
        maker = home.makers.get(name)
        if maker is None or maker.op_type not in ("Identity", "Transpose", "Cast"):
            return None
        if maker.op_type == "Transpose":
            if list(attributes(maker).get("perm", (1, 0))) != [1, 0]:
                return None
            turned = not turned
        name = maker.input[0]
        home = home.home(name)
    return None


def types_behind(scope: Scope, name: str) -> set[int]:
    """Return the types that casts give to the stored tensors that the value ``name`` is."""
    found, waiting = set[int](), [name]
    while waiting:
        read = waiting.pop()
        home = scope.home(read) if read else None
        maker = home.makers.get(read) if home else None
        if maker is not None and maker.op_type in MOVING:
            found.update([attributes(maker)["to"]] if maker.op_type == "Cast" else [])
            waiting += maker.input
    return found


def origin(scope: Scope, name: str) -> Any | None:
    """Return the operator that makes ``name``, if no input of the model decides the value."""
    home = scope.home(name) if name else None
    maker = home.makers.get(name) if home else None
    if home is None or maker is None:
        return None
    waiting, seen = [(home, name)], set()
    while waiting:
        inside, value = waiting.pop()
        if (id(inside), value) in seen or value in inside.stored:
            continue
        seen.add((id(inside), value))
        behind = inside.makers.get(value)
        if behind is None or not (behind.input or behind.op_type == "Constant"):
            return None  # an input, or something random
        if any(attribute.HasField("g") for attribute in behind.attribute):
            return None
        for read in filter(None, behind.input):
            where = inside.home(read)
            if where is None:
                return None
            waiting.append((where, read))
    return maker
