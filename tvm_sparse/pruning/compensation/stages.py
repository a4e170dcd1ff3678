"""In which order layers are pruned: as they are called, those that read the same together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from tvm_sparse.pruning.compensation.calls import Batch, Call, call_of, watch
from tvm_sparse.pruning.layers import PrunableLayer


@dataclass(frozen=True)
class Stage:
    """Layers that read the same input.

    ``caller`` is the name of the module whose calls show that input, ``calls`` how many calls of
    it a run of the model makes.
    """

    layers: tuple[PrunableLayer, ...]
    caller: str
    calls: int


def stages_of(
    model: nn.Module, layers: Sequence[PrunableLayer], batch: Batch
) -> tuple[list[Stage], list[PrunableLayer]]:
    """Return the stages in the order of the first calls, and the layers that are never called.

    A layer that is called more than once, and each weight of a recurrent layer, is a stage of its
    own. The output projection of ``nn.MultiheadAttention`` follows its input projections.
    """
    callers = {layer.key: caller_name(model, layer) for layer in layers}
    names = {id(model.get_submodule(name)): name for name in callers.values()}
    calls: dict[str, list[tuple[int, Hashable]]] = {}
    held: list[Call] = []  # so that no two inputs get the same memory

    def see(module: nn.Module, call: Call) -> None:
        calls.setdefault(names[id(module)], []).append((len(held), _read(call)))
        held.append(call)

    watch(model, call_of(batch), [model.get_submodule(name) for name in names.values()], see)
    groups: dict[Hashable, list[PrunableLayer]] = {}
    silent = []
    for layer in layers:
        seen = calls.get(callers[layer.key], [])
        plain = callers[layer.key] == layer.name and not isinstance(layer.module, nn.RNNBase)
        if not seen:
            silent.append(layer)
        else:
            what = seen[0][1] if plain and len(seen) == 1 else layer.key
            groups.setdefault(what, []).append(layer)

    def place(group: list[PrunableLayer]) -> tuple[int, bool]:
        caller = callers[group[0].key]
        return calls[caller][0][0], caller != group[0].name

    ordered = sorted(groups.values(), key=place)
    names_of = [callers[group[0].key] for group in ordered]
    stages = [Stage(tuple(g), n, len(calls[n])) for g, n in zip(ordered, names_of, strict=True)]
    return stages, silent


def caller_name(model: nn.Module, layer: PrunableLayer) -> str:
    """Return the name of the module whose calls show what ``layer`` reads: usually its own."""
    above = layer.name.rpartition(".")[0]
    parent = model.get_submodule(above)
    inside = isinstance(parent, nn.MultiheadAttention) and parent.out_proj is layer.module
    return above if inside else layer.name


def _read(call: Call) -> Hashable:
    """Return what tells inputs apart: equal for two calls that read the same tensor."""
    tensor = next(x for x in (*call[0], *call[1].values()) if x is not None)
    if not isinstance(tensor, Tensor):
        return id(tensor)
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor._version
