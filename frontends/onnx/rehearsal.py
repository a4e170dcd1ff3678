"""A network run on shapes alone, at one size of each open extent: what a trace there would meet.

It takes a tenth of the time of a trace, which asks about every extent as a symbol.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.onnx.agreement import BranchError, UnlikeError
from tvm_sparse.frontends.onnx.inputs import Input
from tvm_sparse.frontends.quiet import quiet

_log = logging.getLogger(__name__)

_Stage: TypeAlias = tuple[FakeTensorMode, dict[str, torch.Tensor]]

_STAGES: weakref.WeakKeyDictionary[nn.Module, _Stage] = weakref.WeakKeyDictionary()
"""Where each network was rehearsed before: its weights need not be described again."""


def shapes_at(
    network: nn.Module, inputs: Sequence[Input], sizes: Mapping[str, int]
) -> list[tuple[Any, ...]]:
    """Return the shapes of the outputs of ``network``, whose open extents have ``sizes``.

    Raises
    ------
    SparseError
        A node does not fit.
    """
    mode, weights = _stage(network)
    with quiet(), torch.no_grad(), mode:
        shapes = [[sizes[n] if isinstance(n, str) else n for n in x.shape] for x in inputs]
        given = (torch.empty(s, dtype=x.dtype) for s, x in zip(shapes, inputs, strict=True))
        return [tuple(output.shape) for output in functional_call(network, weights, (*given,))]


def _stage(network: nn.Module) -> _Stage:
    """Return what keeps the shapes of a run, and the weights of ``network`` as shapes."""
    if network not in _STAGES:
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        buffers = network.named_buffers()
        _STAGES[network] = mode, {n: mode.from_tensor(x, static_shapes=True) for n, x in buffers}
    return _STAGES[network]


def misfit(
    network: nn.Module, inputs: Sequence[Input], sizes: Mapping[str, int]
) -> InputError | None:
    """Return why no trace can be made at ``sizes``, or None if one may, or tells more.

    Extents that have to be equal, or a certain number, are told by a trace.
    """
    try:
        shapes_at(network, inputs, sizes)
    except (UnsupportedError, UnlikeError, BranchError):
        return None
    except InputError as error:
        return error
    except Exception as error:
        _log.debug("at %s: %s", sizes, error)
    return None
