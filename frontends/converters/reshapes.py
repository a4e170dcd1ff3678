"""Reshapes of open extents: two lists of these are compared as extents, not as Python's objects."""

from __future__ import annotations

from typing import Any

import torch

from tvm_sparse.frontends.converters.operators import converter
from tvm_sparse.passes.graph.rewrite import same_shape, shape_of


@converter("view.default", "reshape.default")
def _reshape(importer: Any, node: torch.fx.Node) -> Any | None:
    """Reshape ``(6, m, n)`` to ``(m, n, 6)``, or keep what has the extents already.

    TVM's converter asks Python whether ``6 == m``, which is no truth. It is right for tensors of
    fixed extents. For -1 of open ones it divides, ``(20 * h + 40) // (h + 2)``, where PyTorch
    knows that it is 20.
    """
    x, dims = importer.retrieve_args(node)[:2]
    before = shape_of(x)
    if before is None or all(isinstance(extent, int) for extent in (*before, *dims)):
        return None
    sides = zip(dims, node.meta["val"].shape, strict=True)
    dims = [n if isinstance(d, int) and isinstance(n, int) else d for d, n in sides]
    return x if same_shape(before, list(dims)) else importer._emit_torch_reshape(x, dims)
