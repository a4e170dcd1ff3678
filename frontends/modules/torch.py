"""PyTorch modules as models: export an inference copy, batch static or dynamic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRanges

from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.frontends.example_inputs import Examples, arguments, bound, told_apart
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.modules.derived_dims import has_derived, refuse_narrower
from tvm_sparse.frontends.modules.dynamic_shapes import checked
from tvm_sparse.frontends.modules.effective import inference_copy
from tvm_sparse.frontends.modules.exported_anew import answered_otherwise, exported_anew
from tvm_sparse.frontends.modules.huggingface import register_caches
from tvm_sparse.frontends.modules.needed_conditions import (
    conditions_of_trace,
    needed,
    refuse_numbers,
)
from tvm_sparse.frontends.modules.open_axes import Call, open_axes
from tvm_sparse.frontends.modules.plain_module import plain_module
from tvm_sparse.frontends.modules.traced import traced
from tvm_sparse.frontends.modules.widened import widened
from tvm_sparse.frontends.program.asked_conditions import CONDITIONS
from tvm_sparse.frontends.program.cuda_autocast import surrounding
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.frontends.program.open_forms import OpenForms
from tvm_sparse.frontends.program.tensor_places import TensorPlaces
from tvm_sparse.frontends.program.told_ranges import told_begins
from tvm_sparse.frontends.quiet import quiet


def from_module(
    module: nn.Module,
    example_inputs: Examples,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_batch: bool | tuple[int, int] = False,
    dynamic_shapes: Any = None,
) -> Model:
    """Import ``module`` through :func:`torch.export.export`; the module itself is not changed.

    Parameters
    ----------
    module
        Exported in evaluation mode with every mask folded into its weight.
    example_inputs
        A tensor, a sequence of positional arguments, or a mapping of keyword arguments.
    kwargs
        Keyword arguments besides.
    dynamic_batch
        Keep the leading extent of the inputs symbolic (named ``batch``); a pair bounds it. Every
        input whose first extent equals that of the first input takes part.
    dynamic_shapes
        Which extents stay symbolic, as :func:`torch.export.export` takes it.

    Raises
    ------
    InputError
        The examples do not run, the model cannot be exported, or an operator cannot be imported.
    """
    if dynamic_batch and dynamic_shapes is not None:
        raise InputError("dynamic_batch", "is set along with dynamic_shapes", "one of them")
    args, named = arguments(example_inputs)
    if not isinstance(kwargs, Mapping | None):
        found = f"got a {type(kwargs).__name__}"
        raise InputError("kwargs", found, "a mapping", "pass several inputs as one tuple")
    named |= kwargs or {}
    register_caches()
    module = plain_module(module)
    given = bound(module, args, named)
    if dynamic_batch:
        args, named, dynamic_shapes = _with_dynamic_batch(args, named, given, dynamic_batch)
    else:
        dynamic_shapes = checked(dynamic_shapes, module, given)
    copy = inference_copy(module)
    with quiet(), torch.no_grad(), surrounding():
        program = exported(copy, (args, named), dynamic_shapes)
    model = from_exported(program, names_of(copy, (args, named), dynamic_shapes))
    begins = told_begins(model, _least(dynamic_shapes))
    return replace(model, ranges=(*model.ranges, *begins))


def exported(module: nn.Module, call: Call, shapes: Any) -> torch.export.ExportedProgram:
    """Export ``module`` for ``call``, of which ``shapes`` says what stays open.

    Raises
    ------
    InputError
        PyTorch cannot trace it, or not with these extents open.
    """
    call = widened(module, told_apart(module, call), shapes)
    with TensorPlaces(), OpenForms(multiples=has_derived(module, call, shapes)):
        try:
            found, asked = traced(module, call, shapes)
            _open_from_one(found, shapes)
            refuse_numbers(module, found, needed(module, found, call, asked.numbers))
            refuse_narrower(module, found, call, shapes)
        except SparseError:
            raise
        except Exception as error:
            found, conditions = exported_anew(module, call, shapes, error)
        else:
            conditions = conditions_of_trace(module, found, call, asked.found)
            found, conditions = answered_otherwise(module, call, shapes, (found, conditions))
    found.graph_module.meta[CONDITIONS] = conditions
    return found


def _open_from_one(program: torch.export.ExportedProgram, shapes: Any) -> None:
    """Let extents of ``program`` that PyTorch found open begin at one, not at two.

    It takes each one as two or more. What is not the same for one is found afterwards.
    """
    every = pytree.tree_leaves(shapes, is_leaf=lambda x: isinstance(x, Dim))
    if any(isinstance(dim, Dim) or getattr(dim, "min", None) is not None for dim in every):
        return
    for symbol, limits in program.range_constraints.items():
        if limits.lower == 2:
            program.range_constraints[symbol] = ValueRanges(1, limits.upper)


def _least(shapes: Any) -> dict[str, int]:
    """Return the least size of each dimension of ``shapes``: one, where none is given.

    Of derived dimensions it is that of what they are multiples of.
    """
    every = pytree.tree_leaves(shapes, is_leaf=lambda x: isinstance(x, Dim))
    dims = [getattr(dim, "root", dim) for dim in every if isinstance(dim, Dim)]
    return {dim.__name__: max(1, dim.min) for dim in dims}


def names_of(module: nn.Module, call: Call, shapes: Any) -> list[dict[int, str]] | None:
    """Return the names that ``shapes`` gives to extents of each tensor of ``call``, by axes.

    For the arguments see :func:`.open_axes`; None where there are no names.
    """
    call = told_apart(module, call)
    opened = zip(pytree.tree_leaves(call), open_axes(module, call, shapes), strict=True)
    found = [dict(_names(axes)) for leaf, axes in opened if isinstance(leaf, torch.Tensor)]
    return found if any(found) else None


def _names(axes: Mapping[int, Any]) -> Iterator[tuple[int, str]]:
    """Yield the name of the dimension of each axis, or of the one that it is a multiple of."""
    for axis, dim in axes.items():
        name = getattr(getattr(dim, "root", dim), "__name__", "")
        if isinstance(dim, Dim) and name.isidentifier():
            yield axis, name


def _with_dynamic_batch(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    given: Mapping[str, Any],
    bounds: bool | tuple[int, int],
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return the examples with a batch of at least two, and the dynamic shapes to export with.

    An extent of one in an example would be specialised by the exporter, so it is doubled.
    """
    low, high = (1, None) if isinstance(bounds, bool) else bounds
    if low < 1 or (high is not None and high < max(low, 2)):
        raise InputError("dynamic_batch", f"bounds {bounds}", "1 <= low <= high and high >= 2")
    leaves = pytree.tree_leaves((args, kwargs))
    batches = [x.shape[0] for x in leaves if isinstance(x, torch.Tensor) and x.dim()]
    if not batches:
        raise InputError("dynamic_batch", "no example input has a leading extent", "a tensor")
    batch = torch.export.Dim("batch", min=low, max=high)

    def follows(x: Any) -> bool:
        return isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == batches[0]

    def widen(x: Any) -> Any:
        return torch.cat([x, x]) if follows(x) and batches[0] == 1 else x

    def dims(x: Any) -> dict[int, Any] | None:
        return {0: batch} if follows(x) else None

    shapes = pytree.tree_map(dims, dict(given))
    args, kwargs = pytree.tree_map(widen, (args, kwargs))
    return args, kwargs, shapes
