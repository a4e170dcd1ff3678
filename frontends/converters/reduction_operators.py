"""Converters of scatters, reductions and scans."""

from __future__ import annotations

from typing import Any

import torch
from tvm import relax

from tvm_sparse.frontends.converters.operators import called, converter, dtype_of, emit, filled
from tvm_sparse.ops.tensors.scan import log_sums, running_extremes

_SCATTERS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@converter("scatter.src")
def _scatter(importer: Any, node: torch.fx.Node) -> Any:
    x, dim, index, source = importer.retrieve_args(node)
    return emit(importer, relax.op.scatter_elements(x, index, source, dim))


@converter("scatter_reduce.two")
def _scatter_reduce(importer: Any, node: torch.fx.Node) -> Any:
    x, dim, index, source, reduce = importer.retrieve_args(node)
    return emit(importer, relax.op.scatter_elements(x, index, source, dim, _SCATTERS[reduce]))


@converter("prod.dim_int")
def _product(importer: Any, node: torch.fx.Node) -> Any:
    x, dim, *keep = importer.retrieve_args(node)
    dtype = dtype_of(node)
    x = x if str(x.ty.dtype) == dtype else emit(importer, relax.op.astype(x, dtype))
    return emit(importer, relax.op.prod(x, dim, bool(keep and keep[0])))


@converter("amax.default", "amin.default")
def _extreme(importer: Any, node: torch.fx.Node) -> Any:
    x, axes, keep = filled(importer.retrieve_args(node), (None, [], False))
    reduce = relax.op.max if "amax" in str(node.target) else relax.op.min
    return emit(importer, reduce(x, [int(axis) for axis in axes] or None, bool(keep)))


@converter("cummax.default", "cummin.default")
def _running_extremes(importer: Any, node: torch.fx.Node) -> Any:
    x, axis = importer.retrieve_args(node)
    largest = "max" in str(node.target)
    return emit(
        importer,
        importer.block_builder.call_te(
            lambda x: running_extremes(x, axis, largest=largest), x, primfunc_name_hint="running"
        ),
    )


@converter("logcumsumexp.default")
def _log_sums(importer: Any, node: torch.fx.Node) -> Any:
    x, axis = importer.retrieve_args(node)
    return called(importer, node, lambda x: log_sums(x, axis), x)
