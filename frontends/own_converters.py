"""Converters of operators that TVM's PyTorch importer does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from tvm_sparse.frontends.resize import resize_converters

Convert = Callable[[torch.fx.Node], Any]


def own_converters(importer: ExportedProgramImporter) -> dict[str, Convert]:
    """Return converters by operator name, as in the importer's own table."""

    def extremum(reduce: Callable[..., Any]) -> Convert:
        def convert(node: torch.fx.Node) -> Any:
            x, keepdim = importer.env[node.args[0]], bool(_argument(node, 2, False))
            axes = [int(d) for d in _argument(node, 1, ())] or None
            return importer.block_builder.emit(reduce(x, axes, keepdim))

        return convert

    def affine(node: torch.fx.Node, shape: list[int], dtype: str) -> list[Any]:
        """Return factors and offsets of a norm; those that are not given do nothing."""
        given = [*node.args[2:4], None, None][:2]
        missing = (relax.const(fill(shape, dtype)) for fill in (np.ones, np.zeros))
        return [importer.env.get(arg, other) for arg, other in zip(given, missing, strict=True)]

    def group_norm(node: torch.fx.Node) -> Any:
        data = importer.env[node.args[0]]
        operands = [data, *affine(node, [int(data.ty.shape[1])], str(data.ty.dtype))]
        axes, epsilon = list(range(2, len(data.ty.shape))), _argument(node, 4, 1e-5)
        norm = relax.op.nn.group_norm(*operands, node.args[1], 1, axes, epsilon)
        return importer.block_builder.emit(norm)

    def layer_norm(node: torch.fx.Node) -> Any:
        data, shape = importer.env[node.args[0]], [int(n) for n in _argument(node, 1, ())]
        operands = [data, *affine(node, shape, str(data.ty.dtype))]
        axes = list(range(-len(shape), 0))
        norm = relax.op.nn.layer_norm(*operands, axes, _argument(node, 4, 1e-5))
        return importer.block_builder.emit(norm)

    return {
        **resize_converters(importer),
        "group_norm.default": group_norm,
        "layer_norm.default": layer_norm,
        "amax.default": extremum(relax.op.max),
        "amin.default": extremum(relax.op.min),
    }


def _argument(node: torch.fx.Node, position: int, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else default
