"""What networks compute from their weights alone, such as standardised convolutions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax


def _axes(call: relax.Call) -> tuple[int, ...] | None:
    axis = call.attrs.axis
    return None if axis is None else tuple(int(a) for a in axis)


def _mean(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return np.mean(x, _axes(call), keepdims=bool(call.attrs.keepdims))


def _sum(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return np.sum(x, _axes(call), keepdims=bool(call.attrs.keepdims))


def _softmax(call: relax.Call, x: np.ndarray) -> np.ndarray:
    axis = int(call.attrs.axis)
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def _variance(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return np.var(x, _axes(call), keepdims=bool(call.attrs.keepdims))


def _deviation(call: relax.Call, x: np.ndarray) -> np.ndarray:
    return np.sqrt(_variance(call, x))


def _standardised(
    call: relax.Call, x: np.ndarray, gain: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    attrs = call.attrs
    axes = tuple(int(a) for a in attrs.axes)
    shape = [1] * x.ndim
    shape[int(attrs.channel_axis)] = -1
    centred = x - x.mean(axes, keepdims=True)
    result = centred / np.sqrt(x.var(axes, keepdims=True) + float(attrs.epsilon))
    result = result * gain.reshape(shape) if attrs.scale else result
    return result + offset.reshape(shape) if attrs.center else result


FORMULAS: dict[str, Callable[..., np.ndarray]] = {
    "mean": _mean,
    "variance": _variance,
    "std": _deviation,
    "sum": _sum,
    "nn.instance_norm": _standardised,
    "nn.softmax": _softmax,
}
"""By operator: what it makes of arrays in double precision."""
