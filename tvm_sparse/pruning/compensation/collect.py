"""Statistics of a stage: the network pruned so far and the dense one, run side by side."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from torch import Tensor, nn

from tvm_sparse.pruning.compensation.calls import Call, watch
from tvm_sparse.pruning.compensation.inputs import Convolution, inputs_of
from tvm_sparse.pruning.compensation.stages import Stage
from tvm_sparse.pruning.compensation.starts import Run, Starts
from tvm_sparse.pruning.compensation.statistics import InputStatistics
from tvm_sparse.pruning.layers import PrunableLayer


def collect(stage: Stage, starts: Starts) -> dict[str, InputStatistics]:
    """Return the statistics of each layer of ``stage`` by its key, over all batches.

    Layers that unfold the same input in the same way share theirs.
    """
    found: dict[Hashable, InputStatistics] = {}
    readers = {_unfolding(layer): layer for layer in stage.layers}
    model, dense = starts.model, starts.dense
    here, there = model.get_submodule(stage.caller), dense.get_submodule(stage.caller)
    for run in starts.runs(stage):
        calls = run.dense_calls

        def see(_: nn.Module, call: Call, run: Run = run, calls: list[Call] = calls) -> None:
            reference = calls.pop(0)
            for key, layer in readers.items():
                twin = replace(layer, module=dense.get_submodule(layer.name))
                own = inputs_of(layer, here, call, run.batch)
                if model is dense:
                    pairs: Iterable[tuple[Tensor, Tensor]] = ((x, x) for x in own)
                else:
                    pairs = zip(own, inputs_of(twin, there, reference, run.batch), strict=True)
                for inputs, wanted in pairs:
                    found.setdefault(key, InputStatistics(layer.name)).add(inputs, wanted)

        watch(run.module, run.call, [here], see, stage.calls)
    for statistics in found.values():
        statistics.flush()
    return {layer.key: found[_unfolding(layer)] for layer in stage.layers}


def _unfolding(layer: PrunableLayer) -> Hashable:
    """Return what two layers of one input have in common if their unfolded inputs are equal."""
    module = layer.module
    if isinstance(module, Convolution):
        window = (module.kernel_size, module.stride, module.dilation)
        return layer.sort, *window, module.padding, module.padding_mode
    recurrent = isinstance(module, nn.RNNBase | nn.MultiheadAttention)
    return layer.key if recurrent else layer.sort
