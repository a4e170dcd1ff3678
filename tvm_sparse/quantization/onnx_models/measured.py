"""What calibration data show of an ONNX file: ranges of values, and what bytes cost each layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.layers import OnnxLayer
from tvm_sparse.onnx_files.operators import PRODUCT
from tvm_sparse.pruning.onnx_models.inputs import as_tensors, inputs_of
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork

Batches = Sequence[dict[str, np.ndarray]]

_CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


@dataclass(frozen=True)
class Bytes:
    """How unsigned bytes mean numbers: ``(byte - zero) * scale``."""

    scale: np.float32
    zero: int

    @staticmethod
    def over(low: float, high: float) -> Bytes:
        """Return what spans a range and has a byte for zero."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / 255) or np.float32(1)
        return Bytes(scale, int(np.clip(np.round(-low / scale), 0, 255)))

    def rounded(self, x: Tensor) -> Tensor:
        """Return ``x`` as its bytes mean it."""
        return torch.fake_quantize_per_tensor_affine(x, float(self.scale), self.zero, 0, 255)


def read_bytes(network: OnnxNetwork, batches: Batches, names: Sequence[str]) -> dict[str, Bytes]:
    """Return bytes for the range that each value has on all ``batches``.

    Raises
    ------
    InputError
        A value is not finite.
    """
    ranges: dict[str, tuple[float, float]] = {}
    for batch in batches:
        for name, value in network.read(batch, names).items():
            low, high = ranges.get(name, (0.0, 0.0))
            found = float(value.min(initial=low)), float(value.max(initial=high))
            if not (math.isfinite(found[0]) and math.isfinite(found[1])):
                raise InputError(
                    f"value '{name}'",
                    "holds NaN or infinite values on the calibration data",
                    "finite activations",
                    "check the calibration batches, and the model's outputs on them",
                )
            ranges[name] = found
    return {name: Bytes.over(*limits) for name, limits in ranges.items()}


def scales_of(weight: np.ndarray) -> np.ndarray:
    """Return the scale of each output of ``weight``, which has the outputs first."""
    largest = np.abs(weight.reshape(len(weight), -1)).max(1).astype(np.float32)
    return np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)


def bytes_of(weight: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return ``weight`` in signed bytes; zeros stay zeros."""
    column = scales.reshape(-1, *[1] * (weight.ndim - 1))
    return np.clip(np.round(weight / column), -127, 127).astype(np.int8)


def losses(
    network: OnnxNetwork, batches: Batches, layers: Sequence[OnnxLayer], *, dynamic: bool
) -> dict[str, float]:
    """Return by layer by how much rounding its own operands changes its output.

    That is the root of the mean square of the difference over that of the output: what comes before
    the layer is float, bias and all behind it are left out.

    Parameters
    ----------
    dynamic
        Inputs of products get the scale of what they hold when they are read.
    """
    names = list(dict.fromkeys(use.reads for layer in layers for use in layer.uses))
    known = read_bytes(network, batches, names)
    sums = {layer.name: (0.0, 0.0) for layer in layers}
    for batch in batches:
        values = as_tensors(network.read(batch, names))
        for layer in layers:
            module = network.get_submodule(layer.name)
            for use in layer.uses:
                x, bytes_ = values[use.reads], known[use.reads]
                if dynamic and use.place.sort == PRODUCT:
                    bytes_ = Bytes.over(float(x.min()), float(x.max()))
                kernel = tuple(getattr(module, "kernel_size", ()))
                x = inputs_of(use, kernel, {use.reads: x}.__getitem__)
                change, size = _change(module, x, bytes_)
                error, whole = sums[layer.name]
                sums[layer.name] = error + change, whole + size
    return {n: math.sqrt(error / size) if size else 0.0 for n, (error, size) in sums.items()}


def _change(module: nn.Module, x: Tensor, bytes_: Bytes) -> tuple[float, float]:
    """Return the squares of what rounding changes, and of the output, summed up."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    plain = weight.detach()
    array = plain.numpy()
    scales = scales_of(array)
    column = torch.from_numpy(scales).reshape(-1, *[1] * (array.ndim - 1))
    rounded = torch.from_numpy(bytes_of(array, scales)).float() * column
    output, again = _product(module, x, plain), _product(module, bytes_.rounded(x), rounded)
    squares = ((again - output).double().square().sum(), output.double().square().sum())
    return float(squares[0]), float(squares[1])


def _product(module: nn.Module, x: Tensor, weight: Tensor) -> Tensor:
    if not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return F.linear(x, weight)
    padded = F.pad(x, module._reversed_padding_repeated_twice)
    convolve = _CONVOLUTIONS[weight.dim()]
    return convolve(padded, weight, None, module.stride, 0, module.dilation, module.groups)
