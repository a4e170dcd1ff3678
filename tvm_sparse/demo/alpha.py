"""DEPrune's alpha, measured: what a layer gains when its ragged tile of 32 vectors is dropped."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.comparison.latency import race
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.pruning.deprune.diagonal import GROUP
from tvm_sparse.pruning.deprune.recalibration import Unaligned
from tvm_sparse.pruning.layers import DEPTHWISE, sort_of


class MeasuredAlpha:
    """Compiles a layer with and without its ragged tile and compares the times.

    Give it to :func:`tvm_sparse.pruning.deprune` as ``alpha``. Layers of equal shape and count are
    measured once. A value below 1 says that dropping vectors did not help on this machine.

    Parameters
    ----------
    model
        The network to be pruned; run once to learn the size of every layer's input.
    example_inputs
        Its inputs, with the batch size that matters.
    target
        What to compile for, as in ``ts.compile``; it has to be able to run here.
    """

    def __init__(
        self, model: nn.Module, example_inputs: tuple[torch.Tensor, ...], target: str = "cpu"
    ) -> None:
        self.target = target
        self._modules = dict(model.named_modules())
        self._inputs = _input_shapes(model, example_inputs)
        self._known: dict[tuple[object, ...], float] = {}

    def __call__(self, layer: Unaligned) -> float:
        """Return time with ``layer.kept`` vectors over time with ``layer.below``."""
        module = self._modules[layer.name]
        assert isinstance(module, nn.Conv2d)
        shape = self._inputs[layer.name]
        key = (layer.shape, module.stride, module.padding, shape, layer.kept)
        if key not in self._known:
            x = torch.rand(shape)
            libraries = {
                name: ts.compile(_pruned(module, count).eval(), (x,), target=self.target)
                for name, count in (("kept", layer.kept), ("below", max(layer.below, 1)))
            }
            times = race({n: _call(library, x) for n, library in libraries.items()})
            self._known[key] = times["kept"].median_us / times["below"].median_us
        return self._known[key]


def _input_shapes(
    model: nn.Module, example_inputs: tuple[torch.Tensor, ...]
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs, name=name: shapes.setdefault(name, tuple(inputs[0].shape)) and None
        )
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d)
    ]
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(*example_inputs)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return shapes


def _pruned(module: nn.Conv2d, count: int) -> nn.Conv2d:
    """Return a layer like ``module`` with ``count`` taps in each group of 32, or filters."""
    depthwise = sort_of(module) == DEPTHWISE
    layer = nn.Conv2d(
        module.in_channels,
        module.out_channels if depthwise else count,
        module.kernel_size,  # type: ignore[arg-type]
        module.stride,  # type: ignore[arg-type]
        module.padding,  # type: ignore[arg-type]
        groups=module.groups,
    )
    if depthwise:
        taps = layer.weight.detach().reshape(len(layer.weight), -1)
        pattern = DepthwiseTaps(min(GROUP, len(taps)), keep=count)
        mask = torch.from_numpy(pattern.project(taps.abs().numpy()))
        layer.weight.data = (taps * mask).reshape(layer.weight.shape)
    return layer


def _call(library: Any, x: torch.Tensor) -> Any:
    return lambda: library(x)
