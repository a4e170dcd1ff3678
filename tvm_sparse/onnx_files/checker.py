"""Checks of an ONNX file, which take what onnxruntime writes as sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

IMPLIED = {"com.microsoft": 1, "com.microsoft.nchwc": 1, "com.ms.internal.nhwc": 1}
"""Versions of operator sets that onnxruntime's files use without importing them."""

_ADDED = {"LayerNormalization": 17, "SimplifiedLayerNormalization": 1 << 30}
"""Operators that onnxruntime writes in ONNX's own domain before ONNX had them."""


def check(path: Path) -> None:
    """Check the file ``path``.

    Given the path, ONNX's checker holds the file itself only while it looks at it. It finds fault
    with outputs without a shape and with what onnxruntime writes; then a copy is looked at that has
    neither, and no weights.

    Raises
    ------
    Exception
        The checker finds fault.
    """
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError:
        proto = onnx.load(str(path), load_external_data=False)
        if not _made_plain(proto):
            raise
        onnx.checker.check_model(proto)


def _made_plain(proto: Any) -> bool:
    """Rewrite what the checker would not know; return whether there was anything."""
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=0)
    found = False
    for node in proto.graph.node:
        if node.domain in ("", "ai.onnx") and _ADDED.get(node.op_type, 0) > opset:
            node.domain, found = _OTHER, True
    imported = {o.domain for o in proto.opset_import}
    used = {node.domain for node in proto.graph.node} & {_OTHER, *IMPLIED}
    for domain in used - imported:
        proto.opset_import.add(domain=domain, version=1)
        found = True
    for value in proto.graph.output:
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") in (None, "tensor_type") and not kind.HasField("shape"):
            kind.elem_type = kind.elem_type or 1
            kind.shape.SetInParent()
            found = True
    for tensor in proto.graph.initializer:
        _emptied(tensor)
    return found


_OTHER = "com.microsoft.plain"
"""A domain that the checker knows nothing of, and asks nothing of."""


def _emptied(tensor: Any) -> None:
    """Leave a weight's name and type alone; that it is whole is checked when it is read."""
    name, kind = tensor.name, tensor.data_type
    tensor.Clear()
    tensor.name, tensor.data_type = name, kind
    tensor.dims.append(0)
