"""Zeros of plain weights that stay zero while a network is trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn

from tvm_sparse.pruning.layers import matrices_of
from tvm_sparse.pruning.masks import find_mask
from tvm_sparse.pruning.unmaskable import why_not


@contextlib.contextmanager
def zeros_held(model: nn.Module) -> Iterator[None]:
    """Make the gradients of zeros in plain weights zero.

    Adam without weight decay leaves a weight as it is whose gradients were all zero. Weights with
    masks have such gradients anyway. Nothing is computed in the forward pass.
    """
    handles = []
    for name, module in model.named_modules():
        for layer in matrices_of(name, module):
            if why_not(module, layer.parameter) or find_mask(module, layer.parameter):
                continue
            weight = getattr(module, layer.parameter)
            kept = weight.detach() != 0
            if weight.requires_grad and not bool(kept.all()):
                handles.append(weight.register_hook(_Masked(kept)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Masked:
    """Zeros in a gradient where a weight is not ``kept``."""

    def __init__(self, kept: Tensor) -> None:
        self.kept = kept

    def __call__(self, gradient: Tensor) -> Tensor:
        return gradient * self.kept
