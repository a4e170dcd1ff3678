"""Sizes below those that PyTorch's guards allow, at which a program is the network all the same."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tvm_sparse.frontends.onnx.inputs import Input, Range
from tvm_sparse.frontends.program.agreement import check_close
from tvm_sparse.frontends.program.ones import Shapes

_log = logging.getLogger(__name__)

_TRIED = 32
"""So many sizes below a range are tried at most: guards ask for two rows where strides of 32 leave
one."""


def lowered(
    network: nn.Module,
    inputs: Sequence[Input],
    program: torch.export.ExportedProgram,
    named: tuple[Mapping[str, Any], Mapping[str, int]],
    limits: tuple[Mapping[Any, Range], Mapping[Any, Range]],
) -> dict[Any, Range]:
    """Return the ranges of ``program``, each from the least size on that it fits, too.

    PyTorch asks whether an extent inside of the network is one, when it lays out memory. The
    program is run beside the network at the sizes below, down to the first one that it does not
    fit, and at the least ones together.

    Parameters
    ----------
    named
        By the name of an extent: its symbol in ``program``, and its size there.
    limits
        By symbol: the range in which the guards hold, and the one that is wanted.
    """
    ranges, wanted = limits
    traced = program.module(check_guards=False)

    def fits(row: Mapping[Any, int]) -> bool:
        return _is_same(network, inputs, traced, named, row)

    least: dict[Any, int] = {}
    for symbol, (low, _) in ranges.items():
        below = range(max(wanted[symbol][0], low - _TRIED), low)
        sizes = itertools.takewhile(lambda size: fits({symbol: size}), reversed(below))
        least.update((symbol, size) for size in sizes)
    if len(least) > 1 and not fits(least):
        return dict(ranges)
    return {symbol: (least.get(symbol, low), high) for symbol, (low, high) in ranges.items()}


def _is_same(
    network: nn.Module,
    inputs: Sequence[Input],
    traced: torch.fx.GraphModule,
    named: tuple[Mapping[str, Any], Mapping[str, int]],
    row: Mapping[Any, int],
) -> bool:
    symbols, sizes = named
    numbers = {name: row.get(symbol, sizes[name]) for name, symbol in symbols.items()}
    values = {symbol: numbers[name] for name, symbol in symbols.items()}
    given = [_drawn(x, numbers) for x in inputs]
    try:
        with torch.no_grad():
            wanted = network(*given)
            found = Shapes(traced, values).run(*given, enable_io_processing=False)
        check_close(traced.graph.process_outputs(found), wanted)
    except Exception as error:  # of the network, too
        _log.debug("at %s: %s", numbers, error)
        return False
    return True


def _drawn(x: Input, numbers: Mapping[str, int]) -> torch.Tensor:
    """Return random real numbers, or zero and one in turns."""
    shape = [numbers[n] if isinstance(n, str) else n for n in x.shape]
    if x.dtype.is_floating_point:
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(x.dtype)
    return (torch.arange(torch.Size(shape).numel()) % 2).reshape(shape).to(x.dtype)
