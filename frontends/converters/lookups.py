"""Converters of what looks rows of a table up: embeddings and bags of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tvm import relax

from tvm_sparse.frontends.converters.operators import called, converter, emit
from tvm_sparse.ops.tensors.bags import MODES, Bags, bags_of_rows


@converter("embedding.default")
def _embedding(importer: Any, node: torch.fx.Node) -> Any:
    """TVM's converter cuts indices to 32 bits: wild ones would become right ones."""
    weight, index = importer.retrieve_args(node)[:2]
    rows = emit(importer, relax.op.reshape(index, [-1]))
    found = emit(importer, relax.op.take(weight, rows, axis=0))
    shape = [*index.ty.shape.values, weight.ty.shape.values[-1]]
    return emit(importer, relax.op.reshape(found, shape))


@converter("_embedding_bag.default", "_embedding_bag_forward_only.default")
def _embedding_bag(importer: Any, node: torch.fx.Node) -> Any:
    """Convert the first output; the others serve the gradient and are refused if they are read."""
    given: list[Any] = list(importer.retrieve_args(node))
    defaults: list[Any] = [False, 0, False, None, False, -1]
    weight, indices, offsets, *options = given + defaults[len(given) - 3 :]
    _, mode, _, factors, closed, skipped = options
    how = Bags(MODES[mode], bool(closed), skipped if skipped >= 0 else None)
    operands = [weight, indices, offsets, *([] if factors is None else [factors])]

    def bags(table: Any, at: Any, starts: Any, scales: Any = None) -> Any:
        return bags_of_rows(table, at, starts, scales, how)

    found = called(importer, node, bags, *operands)
    none = relax.const(np.zeros(0, np.int64))
    return emit(importer, relax.Tuple([found, none, none, none]))
