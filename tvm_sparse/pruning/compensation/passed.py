"""Blocks that are pruned: what they return is kept, so that later runs pass over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvm_sparse.pruning.compensation.calls import Call, returned

Networks: TypeAlias = tuple[nn.Module, nn.Module]
"""The network that is pruned, and the dense one."""

Calls: TypeAlias = tuple[Sequence[Call], Sequence[Call]]
"""One call of a module for each batch, in both networks."""


class Passed:
    """What blocks of both networks returned to their calls, in all batches.

    A block counts only as what it returns: one that writes to its inputs, or that is handed more
    than tensors and plain values (a cache), is run again each time.
    """

    def __init__(self) -> None:
        self._returned: dict[str, tuple[list[Any], list[Any]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""
        return nbytes(list(self._returned.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._returned

    def clear(self) -> None:
        """Forget all blocks."""
        self._returned = {}

    def add(self, name: str, blocks: Networks, calls: Calls, most: int) -> None:
        """Keep what block ``name`` returns to ``calls``, unless all would take ``most`` bytes."""
        made: tuple[list[Any], list[Any]] = ([], [])
        room = most - self.nbytes
        for batch in range(len(calls[0])):
            for side, block in enumerate(blocks):
                call = copied(calls[side][batch])
                if not _plain(call):
                    return
                result = returned(block, call)
                if not _plain(result) or _written(call):
                    return
                made[side].append(result)
            if nbytes(made) * len(calls[0]) > room * (batch + 1):
                return
        self._returned[name] = made

    @contextlib.contextmanager
    def over(self, network: nn.Module, side: int, batch: int) -> Iterator[None]:
        """Let the blocks of ``network`` return what is kept of them, and compute nothing."""
        own: list[tuple[nn.Module, Any]] = []
        try:
            for name, results in self._returned.items():
                block = network.get_submodule(name)
                own.append((block, vars(block).get("forward")))
                vars(block)["forward"] = _returning(results[side][batch])
            yield
        finally:
            for block, forward in own:
                del vars(block)["forward"]
                if forward is not None:
                    vars(block)["forward"] = forward


def copied(value: Any) -> Any:
    """Return ``value`` with tensors that a module may overwrite; equal ones stay one tensor."""
    made: dict[int, Tensor] = {}

    def copy(leaf: object) -> object:
        return made.setdefault(id(leaf), leaf.clone()) if isinstance(leaf, Tensor) else leaf

    return pytree.tree_map(copy, value)


def nbytes(values: object) -> int:
    """Return the bytes of all tensors in ``values``."""
    return sum(x.nbytes for x in pytree.tree_leaves(values) if isinstance(x, Tensor))


def _returning(result: Any) -> Any:
    def forward(*_: Any, **__: Any) -> Any:
        return copied(result)

    return forward


def _plain(value: object) -> bool:
    """Return whether ``value`` has nothing but tensors and numbers that Python cannot change."""
    leaves = pytree.tree_leaves(value)
    return all(x is None or isinstance(x, Tensor | bool | int | float | str) for x in leaves)


def _written(call: Call) -> bool:
    """Return whether a tensor of ``call``, new when the call was made, has been written to."""
    return any(x._version for x in pytree.tree_leaves(call) if isinstance(x, Tensor))
