"""Zeros of plain weights that stay zero while a network is trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from tvm_sparse.pruning.layers import matrices_of
from tvm_sparse.pruning.masks import attach_mask, find_mask, squash_mask
from tvm_sparse.pruning.unmaskable import why_not


@contextlib.contextmanager
def zeros_held(model: nn.Module) -> Iterator[None]:
    """Mask the zeros of plain weights; the masks are gone afterwards, the zeros are not.

    Masks that are there already stay.
    """
    held = []
    for name, module in model.named_modules():
        for layer in matrices_of(name, module):
            if why_not(module, layer.parameter):
                continue
            kept = getattr(module, layer.parameter).detach() != 0
            if find_mask(module, layer.parameter) is None and not bool(kept.all()):
                attach_mask(module, layer.parameter).mask.copy_(kept)
                held.append((module, layer.parameter))
    try:
        yield
    finally:
        for module, parameter in held:
            squash_mask(module, parameter)
