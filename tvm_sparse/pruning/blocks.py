"""The repeated blocks of a network: the layers of a transformer, the stages of a tower."""

from __future__ import annotations

from torch import nn


def blocks_of(model: nn.Module) -> list[str]:
    """Return the names of the repeated blocks of ``model``, in order; none if it has none.

    They are the elements of its longest ``ModuleList`` or ``Sequential`` of equal classes that
    have modules of their own.
    """
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
        and len(module) > 1
        and len({type(child) for child in module}) == 1
        and next(module[0].children(), None) is not None
    ]
    if not lists:
        return []
    name, longest = max(lists, key=lambda item: len(item[1]))
    return [f"{name}.{i}".lstrip(".") for i in range(len(longest))]
