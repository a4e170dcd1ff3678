"""What a convolution call of the graph contracts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.base.numerics import Numerics
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.tensors.near_columns import chunks_of
from tvm_sparse.passes.graph.computed_extents import in_own_symbols
from tvm_sparse.passes.graph.rewrite import Rewriter, constant, op_name, shape_of, static_shape


@dataclass(frozen=True)
class Form:
    """A convolution operator, and the layouts that our operators want of it."""

    operator: Callable[..., Any]
    data: str
    kernel: str


CONVOLUTIONS = {
    "nn.conv1d": Form(relax.op.nn.conv1d, "NWC", "OWI"),
    "nn.conv2d": Form(relax.op.nn.conv2d, "NHWC", "OHWI"),
    "nn.conv3d": Form(relax.op.nn.conv3d, "NDHWC", "ODHWI"),
}
"""By the operator's name."""


def is_channels_last(call: relax.Call) -> bool:
    """Whether ``call`` is a convolution in the layouts that our operators want."""
    form = CONVOLUTIONS.get(op_name(call))
    return form is not None and str(call.attrs.data_layout) == form.data


def options_of(call: relax.Call) -> dict[str, Any]:
    """Return the options of a convolution, to emit it again."""
    attrs = call.attrs
    return {
        "strides": [int(v) for v in attrs.strides],
        "padding": [int(v) for v in attrs.padding],
        "dilation": [int(v) for v in attrs.dilation],
        "groups": int(attrs.groups),
        "data_layout": str(attrs.data_layout),
        "kernel_layout": str(attrs.kernel_layout),
        "out_layout": str(attrs.out_layout),
        "out_dtype": str(attrs.out_dtype) if attrs.out_dtype is not None else None,
    }


def convolution(
    call: relax.Call,
    x: relax.Expr,
    kernel: tuple[int, ...],
    borders: tuple[int, ...],
    *,
    guarded: bool = False,
    static: bool = False,
) -> Contraction | None:
    """Return the contraction of a channels-last call, ``None`` if no operator of ours has it.

    Parameters
    ----------
    x
        What the operator reads: the call's input, padded already unless there are ``borders``.
    kernel
        Shape of the weight, ``(features, *taps, columns of a group)``.
    borders
        Zeros before each spatial axis that the operator takes itself, empty if none.
    guarded
        Whether zeros of the weight stand where the network has no weights.
    static
        Whether operators want a plane whose extents are known.
    """
    attrs, shape, inputs = call.attrs, shape_of(call) or [], shape_of(x) or []
    features, *taps, per_group = kernel
    spatial, groups = inputs[1:-1], int(attrs.groups)
    if static and not all(isinstance(e, int) for e in (*spatial, *shape[1:-1])):
        return None
    depthwise = per_group == 1 and features == inputs[-1] > 1
    joined = 1 if depthwise else joined_groups(features, groups)
    own = in_own_symbols((*shape[:-1], *spatial))
    lead, padded = own[: -len(spatial)], own[-len(spatial) :]
    return Contraction(
        lead=lead,
        columns=features if depthwise else per_group * joined,
        features=features,
        taps=tuple(taps),
        strides=tuple(int(s) for s in attrs.strides),
        dilation=tuple(int(d) for d in attrs.dilation),
        padded=padded,
        borders=borders,
        depthwise=depthwise,
        groups=1 if depthwise else groups // joined,
        numerics=numerics_of(call),
        guarded=(guarded or joined > 1) and numerics_of(call).floating,
    )


def repeated(
    rewriter: Rewriter, x: Any, kernel: tuple[int, ...], groups: int, *, shuffles: bool = True
) -> Any:
    """Return ``x`` with each channel as often as features read it, where each reads a single one.

    The convolution with a weight of the shape ``kernel`` is then depthwise. Channels are repeated
    by shuffles of vectors, where the target has such.
    """
    features, columns = kernel[0], kernel[-1]
    if columns != 1 or groups in (1, features):
        return x
    times = features // groups
    places = np.repeat(np.arange(groups), times)
    if not shuffles or static_shape(x) is None or chunks_of(places.tolist(), groups) is None:
        return rewriter.emit(relax.op.repeat(x, times, axis=-1))
    return rewriter.emit(relax.op.take(x, constant(places), axis=-1))


def joined_groups(features: int, groups: int) -> int:
    """Return how many groups become one, with zeros between them, so that vectors read one group.

    All, if no number of them makes whole vectors of features.
    """
    each = features // groups
    parts = (n for n in range(1, groups) if groups % n == 0 and each * n % LANES == 0)
    return next(parts, groups)


def numerics_of(call: relax.Call) -> Numerics:
    """Return the types of a contraction's input, weight and output."""
    left, right = (str(operand.ty.dtype) for operand in call.args)
    return replace(Numerics.uniform(right, str(call.ty.dtype)), activation=left)
