"""Layers of an ONNX file as modules that hold a weight and compute nothing."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn

from tvm_sparse.onnx_files.layers import OnnxLayer, Use
from tvm_sparse.onnx_files.operators import CONVOLUTION, attributes


class _Holder(nn.Module):
    """Takes what the weight is multiplied by, which hooks look at."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return ``inputs``."""
        return inputs


class OnnxLinear(_Holder, nn.Linear):
    """The weight of a matrix product, or of one direction of a recurrent layer."""


class OnnxConv1d(_Holder, nn.Conv1d):
    """The weight of a convolution in one dimension."""


class OnnxConv2d(_Holder, nn.Conv2d):
    """The weight of a convolution in two dimensions."""


class OnnxConv3d(_Holder, nn.Conv3d):
    """The weight of a convolution in three dimensions."""


_CONVOLUTIONS: dict[int, type[Any]] = {1: OnnxConv1d, 2: OnnxConv2d, 3: OnnxConv3d}


def module_of(layer: OnnxLayer, weight: np.ndarray) -> nn.Module:
    """Return a module that holds ``weight``, which has the outputs first."""
    use = layer.uses[0]
    module = _convolution(use, weight) if use.place.sort == CONVOLUTION else _linear(weight)
    module.weight = nn.Parameter(to_tensor(weight).clone())
    return module


def _linear(weight: np.ndarray) -> nn.Module:
    outputs, inputs = weight.shape
    return OnnxLinear(inputs, outputs, bias=False, device="meta")


def _convolution(use: Use, weight: np.ndarray) -> nn.Module:
    given, dims = attributes(use.node), weight.ndim - 2
    groups = given.get("group", 1)
    module = _CONVOLUTIONS[dims](
        weight.shape[1] * groups,
        weight.shape[0],
        weight.shape[2:],
        stride=tuple(given.get("strides", [1] * dims)),
        dilation=tuple(given.get("dilations", [1] * dims)),
        groups=groups,
        bias=False,
        device="meta",
    )
    pads = [0] * 2 * dims if is_same(given) else list(given.get("pads", [0] * 2 * dims))
    module.padding = tuple(pads)
    sides = [(pads[axis], pads[axis + dims]) for axis in range(dims)]
    module._reversed_padding_repeated_twice = list(itertools.chain(*reversed(sides)))
    return module


def is_same(given: dict[str, Any]) -> bool:
    """Whether a convolution's padding depends on the extents of its input."""
    return given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def to_tensor(array: np.ndarray) -> Tensor:
    """Return ``array`` as a tensor, which may share its memory."""
    array = np.asarray(array, order="C")  # which, other than ascontiguousarray, adds no axis
    array = array if array.flags.writeable else array.copy()
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_array(tensor: Tensor) -> np.ndarray:
    """Return ``tensor`` as an array on the same memory."""
    plain = tensor.detach().cpu()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()
