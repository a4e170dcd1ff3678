"""Indices as PyTorch means them: negative ones count from the end, wild ones never read memory.

TVM's gathers take any index as it is and read whatever lies there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import tvm
from tvm import relax

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.passes.graph.rewrite import op_name, rewrite

aten = torch.ops.aten


def wrap_negative_indices(
    program: torch.export.ExportedProgram, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Make index tensors in ``program``, which is ours, non-negative.

    Constant indices are looked at, so that only those that need it get the arithmetic.

    Raises
    ------
    InputError
        A mask selects elements: how many is known only at run time.
    """
    constants = {
        spec.arg.name: tensors[spec.target]
        for spec in program.graph_signature.input_specs
        if spec.target in tensors
    }
    for node in list(program.graph.nodes):
        if node.target is not aten.index.Tensor:
            continue
        source, indices = node.args
        wrapped = [
            index if index is None else _wrapped(node, axis, index, constants.get(index.name))
            for axis, index in enumerate(indices)
        ]
        node.args = (source, wrapped)


def _wrapped(
    node: torch.fx.Node, axis: int, index: torch.fx.Node, value: torch.Tensor | None
) -> torch.fx.Node:
    """Return ``where(index < 0, index + extent, index)``, or ``index`` if no element needs it."""
    if index.meta["val"].dtype in (torch.bool, torch.uint8):
        raise InputError(
            layer_of(node),
            "selects elements with a mask",
            "operators whose output shape follows from their input shapes",
            "use torch.where, or multiply by the mask",
        )
    if value is not None and bool((value >= 0).all()):
        return index
    negative = _emit(node, aten.lt.Scalar, index, 0)
    shifted = _emit(node, aten.add.Tensor, index, _extent(node, axis, index.meta["val"]))
    return _emit(node, aten.where.self, negative, shifted, index)


def _extent(node: torch.fx.Node, axis: int, like: torch.Tensor) -> int | torch.fx.Node:
    """Return the extent of the indexed tensor: a number, or a scalar as ``like`` if it is open."""
    source: Any = node.args[0]
    extent = source.meta["val"].shape[axis]
    if isinstance(extent, int):
        return extent
    size = _emit(node, aten.sym_size.int, source, axis)
    return _emit(node, aten.scalar_tensor.default, size, val=like.new_empty(()))


def _emit(before: torch.fx.Node, operator: Any, *args: Any, val: Any = None) -> torch.fx.Node:
    """Insert a call; ``val`` is what it gives, if the operator is not to be asked."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(operator, args)
    fakes = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
    stack = before.meta.get("nn_module_stack")
    node.meta = {
        "nn_module_stack": stack,
        "val": operator(*fakes) if val is None else val,
    }
    return node


def bound_indices(module: tvm.IRModule) -> tvm.IRModule:
    """Make gathers safe: an index out of range gives NaN (for integers, the nearest element).

    before: ``take(x, i, mode="fast")`` --> after: ``take(x, i, mode="nan")``
    """
    return rewrite(module, lambda _, call: _bounded(call))


def _bounded(call: Any) -> Any | None:
    if op_name(call) != "take" or call.attrs.mode != "fast":
        return None
    source, index = call.args
    unknown = isinstance(index, relax.Var)
    mode = "nan" if unknown and "float" in str(source.ty.dtype) else "clip"
    axis = None if call.attrs.axis is None else int(call.attrs.axis)
    return relax.op.take(source, index, axis=axis, mode=mode)
