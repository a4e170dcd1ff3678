"""Converters of products with one matrix for each group of rows, as mixtures of experts have."""

from __future__ import annotations

from typing import Any

import torch
from tvm import relax

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.operators import called, converter, emit, filled
from tvm_sparse.ops.contractions.grouped_products import grouped_products, tile_columns


@converter("grouped_mm_fallback.default")
def _of_transformers(importer: Any, node: torch.fx.Node) -> Any:
    """Convert the operator that transformers defines where PyTorch's own does not trace."""
    return _grouped(importer, node, *importer.retrieve_args(node))


@converter("_grouped_mm.default")
def _of_pytorch(importer: Any, node: torch.fx.Node) -> Any:
    given = importer.retrieve_args(node)
    x, weights, ends, bias, _ = filled(given, (None, None, None, None, None))
    ranks = [len(value.ty.shape) for value in (x, weights)]
    if ends is None or bias is not None or ranks != [2, 3]:
        raise UnsupportedError(
            "grouped_mm",
            f"multiplies operands of {ranks[0]} and {ranks[1]} axes",
            "rows that are grouped by offsets, a matrix for each group and no bias",
        )
    return _grouped(importer, node, x, weights, ends)


def _grouped(importer: Any, node: torch.fx.Node, x: Any, weights: Any, ends: Any) -> Any:
    """Bring the weights into tiles of columns, which happens once where they are constants."""
    groups, inputs, outputs = map(int, weights.ty.shape)
    columns = tile_columns(outputs)
    count, width = columns.shape
    if outputs % width:
        even = outputs // width * width
        ends_with = relax.op.strided_slice(weights, [2], [outputs - width], [outputs])
        begins_with = relax.op.strided_slice(weights, [2], [0], [even])
        weights = relax.op.concat([begins_with, ends_with], axis=2)
    apart = relax.op.reshape(weights, (groups, inputs, count, width))
    tiles = emit(importer, relax.op.permute_dims(apart, [0, 2, 1, 3]))
    return called(
        importer, node, lambda x, w, e: grouped_products(x, w, e, outputs), x, tiles, ends
    )
