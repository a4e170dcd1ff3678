"""Weights of eight-bit floats, like those of torchao, as the single precision that holds them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of

aten = torch.ops.aten

_NARROW = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)

_MOVES = {
    *("permute", "view", "reshape", "transpose", "t", "slice", "select", "expand", "cat"),
    *("clone", "alias", "detach", "unsqueeze", "squeeze", "flip", "index_select", "contiguous"),
}
"""Operators that compute nothing."""


def widen_float8_weights(program: torch.export.ExportedProgram) -> None:
    """Let weights of eight-bit floats in ``program``, which is ours, be float32: exactly the same.

    before: ``to(permute(w), float32) * scale`` with ``w`` float8 --> after: with ``w`` float32

    Raises
    ------
    UnsupportedError
        Activations are eight-bit floats; the message names the layer.
    """
    if not any(map(_is_narrow, program.graph.nodes)):
        return
    program._state_dict, program._constants = {**program.state_dict}, {**program.constants}
    specs = program.graph_signature.input_specs
    names = {s.arg.name: s.target for s in specs if s.kind is not InputKind.USER_INPUT}
    wide: set[fx.Node] = set()
    for node in filter(_is_narrow, program.graph.nodes):
        if node.name in names:
            for tensors in (program._state_dict, program._constants):
                if names[node.name] in tensors:
                    narrow: Any = tensors[names[node.name]]
                    tensors[names[node.name]] = narrow.detach().to(torch.float32)
        elif _name(node) not in _MOVES or not wide.issuperset(node.all_input_nodes):
            dtype = str(node.meta["val"].dtype).removeprefix("torch.")
            raise UnsupportedError(
                layer_of(node),
                f"has activations of type {dtype}",
                "eight-bit floats in weights only",
                "quantize the weights alone, or use bytes (int8) for activations",
            )
        wide.add(node)
    for node in wide:
        node.meta["val"] = node.meta["val"].to(torch.float32)


def _is_narrow(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype in _NARROW


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", "")).partition(".")[0]
