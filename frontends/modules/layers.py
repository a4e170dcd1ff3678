"""The layers of a module: each weight that an operator multiplies by, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from tvm_sparse.base.names import layer_of
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.effective import effective, is_sparse, masked_names, to_numpy
from tvm_sparse.frontends.modules.layer_types import (
    ATTENTION,
    DEPTHWISE,
    conv_type,
    linear_type,
    recurrent_type,
)


@dataclass(frozen=True)
class LayerWeight:
    """A weight and where it is.

    Parameters
    ----------
    name
        The layer's fully qualified name; for a layer with several weights, that of the tensor.
    weight
        The tensor's fully qualified name.
    layer_type
        What it is part of: ``"linear"``, ``"conv2d"``, ``"depthwise conv2d"``,
        ``"lstm hidden gates"``, ``"attention projection"``, …
    read
        Returns the effective weight, ``(out, in)`` or ``(out, in / groups, *kernel)``.
    storage
        ``"dense"``, ``"masked"`` (a mask is attached) or the name of a sparse layout.
    shared_with
        Other layers that use the very same weight.
    """

    name: str
    weight: str
    layer_type: str
    read: Callable[[], np.ndarray] = field(repr=False)
    storage: str = "dense"
    shared_with: tuple[str, ...] = ()

    @property
    def depthwise(self) -> bool:
        """Whether the weight has one kernel a channel."""
        return self.layer_type.startswith(DEPTHWISE)


def module_layers(model: nn.Module) -> list[LayerWeight]:
    """Return the layers of ``model``, shared weights once; nothing is computed or copied yet.

    Embeddings, biases and normalisation parameters are no layers in this sense.
    """
    found: dict[Any, LayerWeight] = {}
    for path, name, module in _weights(model):
        key = _identity(module, name)
        layer = _layer(model, path, name, module)
        if layer is None:
            continue
        first = found.setdefault(key, layer)
        if first is not layer and layer.name not in (first.name, *first.shared_with):
            found[key] = replace(first, shared_with=(*first.shared_with, layer.name))
    return list(found.values())


def _weights(model: nn.Module) -> Iterator[tuple[str, str, nn.Module]]:
    """Yield ``(module path, tensor name, module)`` of each direct tensor of two or more axes."""
    for path, module in model.named_modules(remove_duplicate=False):
        if ".parametrizations." in f".{path}." or isinstance(module, nn.Embedding):
            continue
        computed = list(masked_names(module))
        plain = [n for n in module._parameters if n.removesuffix("_orig") not in computed]
        for name in [*plain, *computed]:
            value = _stored(module, name)
            if value is not None and nn.parameter.is_lazy(value):
                raise InputError(
                    f"layer '{path}'", "has no shape yet", "", "run the model once before"
                )
            if value is not None and value.dim() >= 2 and value.numel():
                yield path, name, module


def _stored(module: nn.Module, name: str) -> torch.Tensor | None:
    """Return a tensor with the shape of ``name``, if possible without computing it."""
    if name in module._parameters:
        return module._parameters[name]
    if name + "_orig" in module._parameters:
        return module._parameters[name + "_orig"]
    # A parametrization like weight norm keeps several originals, none of them the weight.
    original = getattr(cast("nn.ModuleDict", module.parametrizations)[name], "original", None)
    return effective(module, name) if original is None else original


def _identity(module: nn.Module, name: str) -> Any:
    """Return a key that two names share only if they are the same weight."""
    if name not in module._parameters and name + "_orig" not in module._parameters:
        return id(cast("nn.ModuleDict", module.parametrizations)[name])
    value, mask = _stored(module, name), module._buffers.get(name + "_mask")
    if value is None or is_sparse(value) or value.is_meta:
        return id(value)
    place = (value.data_ptr(), tuple(value.shape), value.stride())
    return (place, None if mask is None else mask.data_ptr())


def _layer(model: nn.Module, path: str, name: str, module: nn.Module) -> LayerWeight | None:
    tensor = f"{path}.{name}" if path else name
    parent = model.get_submodule(path.rpartition(".")[0]) if path else None
    layer_type = _layer_type(module, path, name, parent)
    value = cast("torch.Tensor", _stored(module, name))
    if layer_type == "parameter" and (value.dim() != 2 or min(value.shape) < 2):
        return None
    storage = "masked" if name in masked_names(module) else "dense"
    if is_sparse(value):
        storage = str(value.layout).removeprefix("torch.").replace("_", " ")
        storage = "semi-structured" if storage == "strided" else storage

    def read() -> np.ndarray:
        return _oriented(module, to_numpy(effective(module, name), tensor))

    return LayerWeight(layer_of(tensor), tensor, layer_type, read, storage)


def _layer_type(module: nn.Module, path: str, name: str, parent: nn.Module | None) -> str:
    if isinstance(module, nn.modules.conv._ConvNd):
        dims, inputs = len(module.kernel_size), module.in_channels
        return conv_type(dims, module.groups, inputs, transposed=module.transposed)
    if isinstance(module, nn.RNNBase):
        return recurrent_type(module.mode.lower().partition("_")[0], name)
    if isinstance(module, nn.RNNCellBase):
        return recurrent_type(type(module).__name__.removesuffix("Cell").lower(), name)
    if isinstance(module, nn.MultiheadAttention) or isinstance(parent, nn.MultiheadAttention):
        return ATTENTION
    if (isinstance(module, nn.Linear) or _is_conv1d_of_transformers(module)) and name == "weight":
        return linear_type(path)
    return "parameter"


def _oriented(module: nn.Module, weight: np.ndarray) -> np.ndarray:
    """Return ``weight`` with outputs along the rows, as the compiled operator has it."""
    if isinstance(module, nn.modules.conv._ConvNd) and module.transposed:
        return outputs_first(weight, module.groups)
    return weight.T if _is_conv1d_of_transformers(module) else weight


def outputs_first(weight: np.ndarray, groups: int) -> np.ndarray:
    """Turn a transposed convolution's ``(in, out / groups, *kernel)`` into outputs first."""
    inputs, outputs, *kernel = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, *kernel)
    return grouped.swapaxes(1, 2).reshape(groups * outputs, inputs // groups, *kernel)


def _is_conv1d_of_transformers(module: nn.Module) -> bool:
    """Whether ``module`` is the ``Conv1D`` of Hugging Face's GPT-2: a linear layer, transposed."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")
