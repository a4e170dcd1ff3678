"""What the columns of a layer's weight matrix are multiplied by: rows of its unfolded input."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tvm_sparse.pruning.compensation.attention import heads_of, projected
from tvm_sparse.pruning.compensation.calls import Batch, Call, attended
from tvm_sparse.pruning.compensation.recurrent import gate_inputs
from tvm_sparse.pruning.compensation.slices import slices_of
from tvm_sparse.pruning.layers import DEPTHWISE, PrunableLayer

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def inputs_of(
    layer: PrunableLayer, caller: nn.Module, call: Call, batch: Batch
) -> Iterator[Tensor]:
    """Yield what the weight of ``layer`` is multiplied by when ``caller`` is called.

    The columns are those of ``lower(weight, "ihw")``. A convolution's patches come image by
    image, which bounds the memory.

    Yields
    ------
    ``(parts, rows, columns)``: the weight's rows are cut into as many equal parts as the first
    axis is long, and each part reads its own matrix (a depthwise layer: each channel). Of a layer
    with very many columns, the parts are groups of its columns (see :mod:`.slices`).
    """
    slices = slices_of(layer)
    for matrix in _whole(layer, caller, call, batch):
        yield matrix if slices is None else slices.inputs(matrix)


def _whole(layer: PrunableLayer, caller: nn.Module, call: Call, batch: Batch) -> Iterator[Tensor]:
    """Yield the inputs of all columns."""
    module = layer.module
    if isinstance(caller, nn.MultiheadAttention):
        inside = caller is not module
        tensors = [heads_of(caller, call)] if inside else projected(caller, layer.parameter, call)
        yield _stacked([attended(x, batch) for x in tensors])
    elif isinstance(module, nn.RNNBase):
        yield gate_inputs(module, layer.parameter, call)[None]
    elif isinstance(module, Convolution):
        for image in _images(module, argument(call)):
            patches = _patches(module, image)
            yield patches.transpose(0, 1) if layer.sort == DEPTHWISE else patches.flatten(1)[None]
    else:
        yield attended(argument(call), batch)[None]


def argument(call: Call) -> Tensor:
    """Return the tensor that a layer with one input was called with."""
    args, kwargs = call
    found = args[0] if args else next(iter(kwargs.values()))
    assert isinstance(found, Tensor)
    return found


def _stacked(matrices: list[Tensor]) -> Tensor:
    """Return ``matrices`` (rows, columns) as one tensor; rows of zeros change no sum of squares."""
    length = max(len(m) for m in matrices)
    return torch.stack([F.pad(m, (0, 0, 0, length - len(m))) for m in matrices])


def _images(conv: Convolution, inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the inputs (C, ...) of each image of a batch, or of the only one, padded."""
    batched = inputs if inputs.dim() == len(conv.kernel_size) + 2 else inputs[None]
    widths = conv._reversed_padding_repeated_twice
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    return (F.pad(batched, widths, mode=mode) if any(widths) else batched).unbind()


def _patches(conv: Convolution, image: Tensor) -> Tensor:
    """Return the windows of the padded ``image`` (C, ...) as (positions, C, taps)."""
    dims = len(conv.kernel_size)
    windows = image
    for axis in range(dims):
        reach = conv.dilation[axis] * (conv.kernel_size[axis] - 1) + 1
        windows = windows.unfold(axis + 1, reach, conv.stride[axis])[..., :: conv.dilation[axis]]
    outputs, taps = range(1, dims + 1), range(dims + 1, 2 * dims + 1)
    moved = windows.permute(*outputs, 0, *taps)
    return moved.reshape(-1, image.shape[0], math.prod(conv.kernel_size))
