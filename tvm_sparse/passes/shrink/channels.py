"""Which channels of which tensors matter: constants flow forward, demand flows backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.formats.arrays import chunks
from tvm_sparse.passes.graph.convolution import is_channels_last
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import op_name, shape_of, static_shape

AVERAGES = tuple(f"nn.avg_pool{n}d" for n in (1, 2, 3))
"""Poolings whose borders are zeros."""

POOLING = (*(f"nn.max_pool{n}d" for n in (1, 2, 3)), *AVERAGES, "mean", "reshape")
"""Keep a channel a channel, where they do so at all (see :func:`treatment_of`)."""


@dataclass
class Group:
    """Tensors whose channels are the same ones: tied by element-wise operators and poolings.

    ``live`` tells which channels something reads; ``fixed`` that none may be removed.
    """

    live: np.ndarray
    fixed: bool = False
    parent: Group | None = None

    def root(self) -> Group:
        """Return the group that this one was merged into."""
        return self if self.parent is None else self.parent.root()


@dataclass
class ChannelFacts:
    """What is known of every variable of a function whose last axis is channels.

    ``known`` holds, for each channel, the value that it has everywhere, or NaN.
    """

    groups: dict[Any, Group] = field(default_factory=dict)
    known: dict[Any, np.ndarray] = field(default_factory=dict)

    def group(self, var: relax.Var) -> Group:
        """Return the group of ``var``; tensors without static channels get a fixed one."""
        if var not in self.groups:
            shape = shape_of(var)
            count = shape[-1] if shape and isinstance(shape[-1], int) else 0
            self.groups[var] = Group(np.zeros(count, bool), fixed=count == 0)
        return self.groups[var].root()

    def tie(self, a: Any, b: Any) -> None:
        """Make ``a`` and ``b`` keep the same channels; unequal counts fix both."""
        one, other = self.group(a), self.group(b)
        if len(one.live) != len(other.live):
            one.fixed = other.fixed = True
        elif one is not other:
            other.parent = one
            one.live |= other.live
            one.fixed |= other.fixed

    def fix(self, var: relax.Var) -> None:
        """Keep all channels of ``var``."""
        self.group(var).fixed = True

    def keep(self, var: relax.Var, multiple: int) -> np.ndarray:
        """Return the channels to keep, filled up to whole vectors with the first dead ones."""
        group = self.group(var)
        live = np.ones_like(group.live) if group.fixed else group.live.copy()
        wanted = max(multiple, -(-int(live.sum()) // multiple) * multiple)
        dead = np.flatnonzero(~live)
        live[dead[: max(0, wanted - int(live.sum()))]] = True
        return np.flatnonzero(live)


def treatment_of(call: relax.Call, value: Callable[[Any], Any]) -> str:
    """Return how ``call`` treats channels.

    ``"linear"`` mixes them by a constant weight, ``"depthwise"`` weighs each, ``"same"`` keeps
    them apart and in place, ``""`` is anything else. ``value`` resolves an expression to what it
    is bound to.
    """
    name = op_name(call)
    if name == "matmul":
        weight = value(call.args[1])
        return "linear" if isinstance(weight, GenericConst) and weight.value.ndim == 2 else ""
    if is_channels_last(call):
        if not isinstance(value(call.args[1]), GenericConst):
            return ""
        groups, features = int(call.attrs.groups), (shape_of(call) or [0])[-1]
        depth = (shape_of(call.args[1]) or [0])[-1]
        return "linear" if groups == 1 else "depthwise" if groups == features and depth == 1 else ""
    if name in ELEMENTWISE:
        return "same" if all(_aligned(call, a, value) for a in call.args) else ""
    return "same" if name in POOLING and _keeps_channels(call, name) else ""


def _aligned(call: relax.Call, operand: relax.Expr, value: Callable[[Any], Any]) -> bool:
    """Whether an operand has the result's channels, or is a constant or number without any."""
    if not isinstance(operand.ty, relax.TensorType):
        return True
    shape, out = static_shape(operand), shape_of(call) or []
    if isinstance(value(operand), GenericConst):
        return shape is not None and (not shape or shape[-1] in (1, out[-1]))
    own = shape_of(operand) or [None]
    return bool(out) and own[-1] == out[-1]


def _keeps_channels(call: relax.Call, name: str) -> bool:
    shape, out = shape_of(call.args[0]) or [], shape_of(call) or []
    if name == "reshape":
        ones = [e for e in shape[:-1] if e != 1] == [e for e in out[:-1] if e != 1]
        return bool(shape and out) and shape[-1] == out[-1] and ones
    if name == "mean":
        axes = [int(a) % len(shape) for a in call.attrs.axis or range(len(shape))]
        return len(shape) - 1 not in axes
    return str(call.attrs.layout).endswith("C")


def constants_through(
    call: relax.Call, treatment: str, operands: list[np.ndarray], padded: bool
) -> np.ndarray:
    """Return the known channel values of ``call``'s result.

    ``operands`` are the known values of its inputs (constants' own, as vectors) or the weight as
    ``(features, taps, columns)``; ``padded`` says that zeros are put around the input, which only
    a zero does not feel.
    """
    name = op_name(call)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if treatment == "same":
            return _same(name, operands, padded)
        x, weight = operands
        x = np.where(x != 0, np.nan, x) if padded else x
        if treatment == "depthwise":
            total = weight.sum(1, dtype=np.float64)
            return np.where(np.any(weight, 1)[:, 0], x * total[:, 0], 0.0)
        return _mixed(x, weight)


def _mixed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weighted sums of known values ``x``, NaN where an unknown one takes part."""
    known = ~np.isnan(x)
    parts = []
    for _, part in chunks(weight):
        total = part[:, :, known].sum(1, dtype=np.float64) @ x[known]
        unknown = np.any(part[:, :, ~known], axis=(1, 2))
        parts.append(np.where(unknown, np.nan, total))
    return np.concatenate(parts)


def read_columns(weight: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Return which columns of ``weight`` ``(features, taps, columns)`` its ``live`` rows read."""
    found = np.zeros(weight.shape[-1], bool)
    for first, part in chunks(weight):
        wanted = live[first : first + len(part)]
        found |= (part if wanted.all() else part[wanted]).any((0, 1))
    return found


def _same(name: str, operands: list[np.ndarray], padded: bool) -> np.ndarray:
    traits = ELEMENTWISE.get(name)
    if traits is not None:
        if traits.numpy is None:
            return np.full(operands[0].shape, np.nan)
        result = traits.numpy(*operands)
        zero = np.any([x == 0 for x in operands], 0) if name == "multiply" else False
        return np.where(zero, 0.0, result)
    x = operands[0]
    return np.where(x != 0, np.nan, x) if padded and name in AVERAGES else x


def weight_matrix(call: relax.Call, weight: np.ndarray) -> np.ndarray:
    """Return a linear or convolution weight as ``(features, taps, columns)``."""
    if op_name(call) == "matmul":
        return weight.T[:, None, :]
    return weight.reshape(weight.shape[0], -1, weight.shape[-1])


def is_padded(call: relax.Call) -> bool:
    """Whether an operator surrounds its input with zeros."""
    padding = getattr(call.attrs, "padding", None)
    return padding is not None and any(int(p) for p in padding)
