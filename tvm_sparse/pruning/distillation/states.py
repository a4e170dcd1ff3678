"""What modules of a network give when it runs on a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvm_sparse.pruning.compensation.calls import Batch, run


def states_of(model: nn.Module, modules: Sequence[nn.Module], batch: Batch) -> list[list[Tensor]]:
    """Return the floating-point outputs of each of ``modules`` when ``model`` runs."""
    found: dict[int, list[Tensor]] = {}

    def see(module: nn.Module, _: Any, output: Any) -> None:
        leaves = pytree.tree_leaves(output)
        found.setdefault(id(module), []).extend(
            x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()
        )

    handles = [module.register_forward_hook(see) for module in modules]
    try:
        run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return [found.get(id(module), []) for module in modules]
