"""What bytes cost each layer, measured on calibration data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.modules.quantized_layers import traced_in
from tvm_sparse.quantization.rows import row_meant, weight_meant

_OBSERVER = "activation_post_process"
_LAYERS = ("conv", "linear")


def losses(prepared: fx.GraphModule, calls: Sequence[Any], *, dynamic: bool) -> dict[str, float]:
    """Return for each layer by how much rounding its own operands changes its output.

    That is the root of the mean square of the difference over that of the output: what comes before
    the layer is float. Layers of the same module count together.

    Parameters
    ----------
    prepared
        A model with torchao's observers, which have seen the calibration data.
    calls
        Positional and keyword arguments of each batch.
    dynamic
        Linear layers find the scale of each row of their input.
    """
    found, order = _Losses(prepared, dynamic=dynamic), list(calls[0][1])
    for args, kwargs in calls:
        leaves = pytree.tree_leaves((args, {name: kwargs[name] for name in order}))
        found.run(*leaves, enable_io_processing=False)
    return {
        name: math.sqrt(error / size) if size else 0.0 for name, (error, size) in found.sums.items()
    }


class _Losses(fx.Interpreter):
    """Runs a prepared model in floats, and each layer a second time on rounded operands."""

    def __init__(self, prepared: fx.GraphModule, *, dynamic: bool) -> None:
        super().__init__(prepared)
        self.dynamic = dynamic
        self.sums: dict[str, tuple[float, float]] = {}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Leave out observers, which have seen the data before."""
        if str(target).startswith(_OBSERVER):
            return args[0]
        return super().call_module(target, args, kwargs)

    def run_node(self, n: fx.Node) -> Any:
        """Run a node; add up what rounding changes if it is a layer."""
        output = super().run_node(n)
        name = traced_in(n) if n.op == "call_function" else ""
        if name and getattr(n.target, "__name__", "").startswith(_LAYERS):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            rounded = self._rounded(n, args)
            if rounded is not None:
                again = super().call_function(n.target, (*rounded, *args[2:]), kwargs)
                error, size = self.sums.get(name, (0.0, 0.0))
                change, whole = (float(t.double().square().sum()) for t in (again - output, output))
                self.sums[name] = error + change, size + whole
        return output

    def _rounded(self, layer: fx.Node, args: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
        """Return input and weight of ``layer`` as their bytes mean, if it gets bytes."""
        x, weight = args[:2]
        observers = [self._observer(operand) for operand in layer.args[:2]]
        if None not in observers:
            return _meant(observers[0], x), _meant(observers[1], weight)
        linear = getattr(layer.target, "__name__", "").startswith("linear")
        return (row_meant(x), weight_meant(weight)) if self.dynamic and linear else None

    def _observer(self, operand: Any) -> Any | None:
        if not isinstance(operand, fx.Node) or operand.op != "call_module":
            return None
        return self.module.get_submodule(str(operand.target))


def _meant(observer: Any, x: Tensor) -> Tensor:
    """Return what the bytes mean that ``observer`` chose for ``x``."""
    scale, zero = observer.calculate_qparams()
    limits = observer.quant_min, observer.quant_max
    if scale.numel() == 1:
        return torch.fake_quantize_per_tensor_affine(x, float(scale), int(zero), *limits)
    axis = observer.ch_axis
    return torch.fake_quantize_per_channel_affine(x, scale, zero.to(torch.int32), axis, *limits)
