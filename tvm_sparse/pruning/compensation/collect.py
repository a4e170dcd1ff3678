"""Statistics of a stage: the network pruned so far and the dense one, run side by side."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvm_sparse.pruning.compensation.calls import Batch, Call, watch
from tvm_sparse.pruning.compensation.inputs import Convolution, inputs_of
from tvm_sparse.pruning.compensation.stages import Stage
from tvm_sparse.pruning.compensation.statistics import InputStatistics
from tvm_sparse.pruning.layers import PrunableLayer


def collect(
    model: nn.Module, dense: nn.Module, stage: Stage, batches: Sequence[Batch]
) -> dict[str, InputStatistics]:
    """Return the statistics of each layer of ``stage`` by its key, over all ``batches``.

    Layers that unfold the same input in the same way share theirs.
    """
    found: dict[Hashable, InputStatistics] = {}
    readers = {_unfolding(layer): layer for layer in stage.layers}
    here, there = model.get_submodule(stage.caller), dense.get_submodule(stage.caller)
    for batch in batches:
        calls = _calls(dense, there, batch, stage.calls)

        def see(_: nn.Module, call: Call, batch: Batch = batch, calls: list[Call] = calls) -> None:
            reference = calls.pop(0)
            for key, layer in readers.items():
                twin = replace(layer, module=dense.get_submodule(layer.name))
                pairs = zip(
                    inputs_of(layer, here, call, batch),
                    inputs_of(twin, there, reference, batch),
                    strict=True,
                )
                for inputs, wanted in pairs:
                    found.setdefault(key, InputStatistics()).add(layer.name, inputs, wanted)

        watch(model, batch, [here], see, stage.calls)
    return {layer.key: found[_unfolding(layer)] for layer in stage.layers}


def _calls(model: nn.Module, module: nn.Module, batch: Batch, count: int) -> list[Call]:
    """Return the first ``count`` calls of ``module``; copies, where the model goes on after one."""
    calls: list[Call] = []

    def see(_: nn.Module, call: Call) -> None:
        calls.append(call if len(calls) + 1 == count else pytree.tree_map(_copy, call))

    watch(model, batch, [module], see, count)
    return calls


def _copy(value: object) -> object:
    return value.clone() if isinstance(value, Tensor) else value


def _unfolding(layer: PrunableLayer) -> Hashable:
    """Return what two layers of one input have in common if their unfolded inputs are equal."""
    module = layer.module
    if isinstance(module, Convolution):
        window = (module.kernel_size, module.stride, module.dilation)
        return layer.sort, *window, module.padding, module.padding_mode
    recurrent = isinstance(module, nn.RNNBase | nn.MultiheadAttention)
    return layer.key if recurrent else layer.sort
