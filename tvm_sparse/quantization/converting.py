"""torchao's conversion of a calibrated graph, without what only training needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_BATCH_NORM = torch.ops.aten.batch_norm.default


def converted(prepared: fx.GraphModule) -> fx.GraphModule:
    """Return ``prepared``, which is changed, with the operators that quantize for its observers.

    If batch norms are left, those behind no convolution, ``convert_pt2e`` traces 96 small networks
    to look for layers as quantization-aware training leaves them, of which there are none: one to
    two minutes. Under another name it does not see them.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    _rename(prepared, _BATCH_NORM, batch_norm)
    result = convert_pt2e(prepared)
    _rename(result, batch_norm, _BATCH_NORM)
    return result


def batch_norm(*args: Any) -> torch.Tensor:
    """Return what PyTorch's operator does."""
    return _BATCH_NORM(*args)


def _rename(module: fx.GraphModule, old: Any, new: Any) -> None:
    found = [node for node in module.graph.nodes if node.target is old]
    for node in found:
        node.target = new
    if found:
        module.recompile()
