"""Data-parallel training: one process decides the masks, all use them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import distributed


def broadcast_masks(masks: Mapping[str, torch.Tensor]) -> None:
    """Overwrite the masks of all processes with those of rank 0, in place."""
    if not _several():
        return
    for name in sorted(masks):
        wire = masks[name].to(torch.uint8)
        distributed.broadcast(wire, src=0)
        masks[name].copy_(wire.bool())


def sum_importance(importance: Mapping[str, torch.Tensor]) -> None:
    """Add up the Taylor importance of all processes, in place."""
    if not _several():
        return
    for name in sorted(importance):
        distributed.all_reduce(importance[name])


def _several() -> bool:
    return (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )
