"""Converters of what samples planes and volumes at places that a grid gives."""

from __future__ import annotations

import math
from typing import Any

import torch
from tvm import relax

from tvm_sparse.frontends.converters.operators import called, converter, emit
from tvm_sparse.ops.tensors.grid_sample import MODES, PADDINGS, Sampling, sampled, tables

SAMPLERS = (torch.ops.aten.grid_sampler_2d.default, torch.ops.aten.grid_sampler_3d.default)
"""The operators that are imported here."""


@converter(*(operator.__name__ for operator in SAMPLERS))
def _grid_sample(importer: Any, node: torch.fx.Node) -> Any:
    x, grid, mode, padding, corners = importer.retrieve_args(node)
    batch, channels, *extents = x.ty.shape.values

    def how(planes: Any) -> Sampling:
        return Sampling(MODES[mode], PADDINGS[padding], bool(corners), tuple(planes))

    # Extents are operands, so that an open one is a variable of the function.
    found = called(importer, node, lambda grid, planes: tables(grid, how(planes)), grid, extents)
    parts = [emit(importer, found[i]) for i in range(2 if MODES[mode] == "nearest" else 3)]
    flat = emit(importer, relax.op.reshape(x, [batch, channels, math.prod(extents)]))

    def samples(x: Any, elements: Any, counts: Any, *rest: Any) -> Any:
        shares, planes = (None, *rest)[-2:]
        return sampled(x, elements, counts, shares, how(planes))

    return called(importer, node, samples, flat, *parts, extents)
