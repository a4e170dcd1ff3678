"""What a convolution call of the graph contracts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax, tirx

from tvm_sparse.numerics import Numerics
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.passes.rewrite import shape_of


def convolution(
    call: relax.Call, x: Any, kernel: tuple[int, ...], borders: tuple[int, ...]
) -> Contraction | None:
    """Return the contraction of an NHWC ``nn.conv2d``, ``None`` if no operator of ours has it.

    Parameters
    ----------
    x
        What the operator reads: the call's input, padded already unless there are ``borders``.
    kernel
        Shape of the weight, ``(features, kh, kw, columns of a group)``.
    borders
        Zeros before each spatial axis that the operator takes itself, empty if none.
    """
    attrs, shape, inputs = call.attrs, shape_of(call) or [], shape_of(x) or []
    features, *taps, per_group = kernel
    spatial, groups = inputs[1:3], int(attrs.groups)
    if not all(isinstance(e, int) for e in (*spatial, *shape[1:3])):
        return None
    depthwise = groups == features == inputs[-1] and per_group == 1
    if groups != 1 and not depthwise:
        return None
    return Contraction(
        lead=tuple(extent(e) for e in shape[:-1]),
        columns=features if depthwise else per_group,
        features=features,
        taps=tuple(taps),
        strides=tuple(int(s) for s in attrs.strides),
        dilation=tuple(int(d) for d in attrs.dilation),
        padded=tuple(spatial),
        borders=borders,
        depthwise=depthwise,
        numerics=numerics_of(call),
    )


def numerics_of(call: relax.Call) -> Numerics:
    """Return the types of a contraction's input, weight and output."""
    left, right = (str(operand.ty.dtype) for operand in call.args)
    return replace(Numerics.uniform(right, str(call.ty.dtype)), activation=left)


def extent(value: Any) -> Any:
    """Return a static extent, or a fresh symbol: operators need a plain variable each."""
    return value if isinstance(value, int) else tirx.Var("n", "int64")
