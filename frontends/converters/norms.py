"""Converters of norms, with factors and offsets or without."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tvm import relax, tirx

from tvm_sparse.frontends.converters.operators import converter, emit


@converter("group_norm.default")
def _group_norm(importer: Any, node: torch.fx.Node) -> Any:
    x, groups, weight, bias, epsilon = _arguments(importer, node)
    affine = _affine(x, [int(x.ty.shape[1])], weight, bias)
    axes = list(range(2, len(x.ty.shape)))
    return emit(importer, relax.op.nn.group_norm(x, *affine, groups, 1, axes, epsilon))


@converter("layer_norm.default")
def _layer_norm(importer: Any, node: torch.fx.Node) -> Any:
    x, shape, weight, bias, epsilon = _arguments(importer, node)
    if not all(isinstance(n, int | tirx.IntImm) for n in shape):
        return _open_norm(importer, x, list(range(-len(shape), 0)), (weight, bias), epsilon)
    affine = _affine(x, [int(n) for n in shape], weight, bias)
    axes, dtype, held = list(range(-len(shape), 0)), str(x.ty.dtype), str(affine[0].ty.dtype)
    if dtype == held:
        return emit(importer, relax.op.nn.layer_norm(x, *affine, axes, epsilon))
    wide = relax.op.nn.layer_norm(_as(importer, x, held), *affine, axes, epsilon)
    return _as(importer, emit(importer, wide), dtype)


def _open_norm(
    importer: Any, x: Any, axes: list[int], affine: tuple[Any, Any], epsilon: float
) -> Any:
    """Write the norm of open axes; sums are in single precision at least."""
    dtype, op = str(x.ty.dtype), relax.op

    def made(function: Any, *operands: Any) -> Any:
        return emit(importer, function(*operands))

    wide = dtype if dtype == "float64" else "float32"
    x = x if dtype == wide else _as(importer, x, wide)
    centred = made(op.subtract, x, emit(importer, op.mean(x, axes, keepdims=True)))
    variance = emit(importer, op.mean(made(op.multiply, centred, centred), axes, keepdims=True))
    shifted = made(op.add, variance, relax.const(epsilon, wide))
    result = made(op.multiply, centred, made(op.rsqrt, shifted))
    for given, join in zip(affine, (op.multiply, op.add), strict=True):
        if given is not None:
            result = made(join, result, _as(importer, given, wide))
    return result if dtype == wide else _as(importer, result, dtype)


@converter("_native_batch_norm_legit_no_training.default")
def _batch_norm(importer: Any, node: torch.fx.Node) -> Any:
    """Convert halves with statistics in single precision, as autocast has them: one rounding."""
    x, weight, bias, mean, variance, _, epsilon = importer.retrieve_args(node)
    dtype, held = str(x.ty.dtype), str(mean.ty.dtype)
    if dtype == held:
        return None
    affine = _affine(mean, [int(x.ty.shape[1])], weight, bias)
    wide = relax.op.nn.batch_norm(
        _as(importer, x, held), *affine, mean, variance, 1, epsilon, training=False
    )
    return _as(importer, emit(importer, emit(importer, wide)[0]), dtype)


def _as(importer: Any, x: Any, dtype: str) -> Any:
    return emit(importer, relax.op.astype(x, dtype))


def _arguments(importer: Any, node: torch.fx.Node) -> list[Any]:
    """Return the operands and the epsilon; what is not given is PyTorch's default."""
    given = list(importer.retrieve_args(node))[:5]
    return [*given, *(None, None, None, None, 1e-5)[len(given) :]]


def _affine(x: Any, shape: list[int], weight: Any, bias: Any) -> list[Any]:
    """Return factors and offsets; those that are not given do nothing."""
    dtype = str(x.ty.dtype)
    return [
        relax.const(fill(shape, dtype), dtype) if given is None else given
        for given, fill in ((weight, np.ones), (bias, np.zeros))
    ]
