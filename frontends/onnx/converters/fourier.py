"""Fourier transforms; a last axis of one or two holds real or complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("DFT", static=["length"])
def _of_attribute(
    x: Tensor,
    length: np.ndarray | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
    node: Node,
) -> Tensor:
    return _transformed(node, x, length, axis, inverse=inverse, onesided=onesided)


@converter("DFT", since=20, static=["length", "axis"])
def _of_input(
    x: Tensor,
    length: np.ndarray | None = None,
    axis: np.ndarray | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
    node: Node,
) -> Tensor:
    place = -2 if axis is None else int(axis.reshape(()))
    return _transformed(node, x, length, place, inverse=inverse, onesided=onesided)


def _transformed(
    node: Node,
    x: Tensor,
    length: np.ndarray | None,
    axis: int,
    *,
    inverse: int,
    onesided: int,
) -> Tensor:
    """Transform an axis that is cut or padded to ``length``; one side suffices for real numbers."""
    rank, parts = x.dim(), x.shape[-1]
    if not -rank <= axis < rank or axis in (-1, rank - 1):
        raise node.unsound(f"axis {axis} of {rank}", "one before the last")
    if parts not in (1, 2) or (onesided and parts != 1 + bool(inverse)):
        kind = "2" if onesided and inverse else "1" if onesided else "1 or 2"
        raise node.unsound(f"its last axis has {parts} elements", kind)
    count = None if length is None else int(length.reshape(()))
    if count is not None and count < 1:
        raise node.unsound(f"dft_length {count}", "1 or more")
    axis = axis % rank  # the axis of the parts goes
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if onesided and inverse:
        return torch.fft.irfft(_complex(wide), count, axis)[..., None].to(x.dtype)
    found: Any = torch.fft.rfft if onesided else torch.fft.ifft if inverse else torch.fft.fft
    numbers = _complex(wide) if parts == 2 or inverse else wide[..., 0]
    return torch.view_as_real(found(numbers, count, axis)).to(x.dtype)


def _complex(x: Tensor) -> Tensor:
    pairs = x if x.shape[-1] == 2 else torch.cat([x, torch.zeros_like(x)], -1)
    return torch.view_as_complex(pairs.contiguous())


@converter("STFT", static=["step", "length"])
def _of_frames(
    signal: Tensor,
    step: np.ndarray,
    window: Tensor | None = None,
    length: np.ndarray | None = None,
    *,
    onesided: int = 1,
    node: Node,
) -> Tensor:
    """Transform frames of the signal (batch, time, 1 or 2), each weighted by the window.

    A signal (batch, time) is a real one, too: onnxruntime takes it so.
    """
    if signal.dim() == 2:
        signal = signal[..., None]
    if signal.dim() != 3:
        raise node.unsound(f"a signal of {signal.dim()} axes", "3")
    if length is not None:
        count = int(length.reshape(()))
    else:
        count = signal.shape[1] if window is None else window.shape[0]
    hop = int(step.reshape(()))
    if hop < 1 or count < 1:
        raise node.unsound(f"frames of {count} elements, {hop} apart", "1 or more")
    if window is not None and tuple(window.shape) != (count,):
        raise node.unsound(f"a window of shape {list(window.shape)}", f"{[count]}")
    frames = signal.unfold(1, count, hop).movedim(-1, 2)
    if window is not None:
        frames = frames * window[:, None]
    return _transformed(node, frames, None, 2, inverse=0, onesided=onesided)
