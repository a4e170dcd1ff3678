"""A network of free extents as an exported program: sizes to trace at, and which extents agree."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn
from torch.export import Dim

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.onnx.agreement import BranchError, OpenExtentError
from tvm_sparse.frontends.onnx.inputs import Input, Range
from tvm_sparse.frontends.onnx.rehearsal import misfit
from tvm_sparse.frontends.onnx.trace import Bounds, Trace, automatic, common, exported, with_extents

_log = logging.getLogger(__name__)

_DISTINCT = (4, 6, 10, 14, 22, 26, 34, 38)
"""Sizes for extents of different names at the first try; different, so that no two are mixed."""

_SIZES = (
    (4, 10, 14, 22, 26),
    (4, 96, 128, 160, 192),
    (4, 640, 320, 480, 640),
    (4, 224, 224, 224, 224),
    (4, 320, 48, 320, 48),
    (4, 576, 512, 512, 512),
    (4, 16000, 16000, 16000, 16000),
    (1, 96, 128, 160, 192),
)
"""Sizes of the axes at the next tries, the leading one first: small ones, then what the kernels of
images, lines of text and sound are made for. Extents of the same axis are given the same size, so
that a graph which needs equal ones finds them equal."""

_SELDOM = (
    (4, 320, 32, 320, 32),
    (4, 320, 64, 320, 64),
    (4, 96, 16, 96, 16),
    (4, 96, 24, 96, 24),
)
"""More of them, for networks that fit none of those: lines of text of other heights."""


_LARGE = _SIZES[2:]
"""Sizes at which an extent inside of the graph is seldom one."""


def traced(
    network: nn.Module,
    inputs: Sequence[Input],
    bounds: Bounds,
    source: str,
    *,
    large: bool = False,
) -> Trace:
    """Export ``network`` with every extent open that it leaves open.

    First all extents of different names are taken as different and any size from one on. Where
    the graph does not allow that, PyTorch is asked which extents it takes as equal, at several
    sizes, and the range in which the trace holds is worked out. All sizes are ``large`` where a
    trace at a small one decided something by it.

    Raises
    ------
    SparseError
        A node cannot be imported.
    InputError
        The graph fits no size that was tried, or several that exclude each other.
    """
    plain = {
        name: Dim(f"d{i}", min=low, max=high)
        for i, (name, (low, high)) in enumerate(_ranges(inputs, bounds).items())
    }
    rows = (_LARGE,) if large else (_SIZES, _SELDOM)
    fitting = _fitting(network, inputs, bounds, rows)
    sizes = next(fitting, {}) if large else _first_sizes(plain, bounds)
    try:
        return _rehearsed(network, inputs, plain, sizes)
    except UnsupportedError:
        raise
    except OpenExtentError as error:
        return traced(network, *_settled_by(error, inputs, bounds, source), source, large=large)
    except Exception as error:
        if not plain:
            raise _refusal(source, inputs, error) from error
        first = error
    found: dict[Any, Trace] = {}
    guarded: dict[Any, Trace] = {}
    for sizes in fitting:
        try:
            trace = automatic(network, inputs, sizes, bounds)
        except UnsupportedError:
            raise
        except OpenExtentError as error:
            return traced(network, *_settled_by(error, inputs, bounds, source), source, large=large)
        except Exception as error:
            _log.debug("%s at %s: %s", source, sizes, error)
            continue
        if trace is None:
            continue
        whole = trace.inputs == list(inputs)
        if whole and trace.is_unlimited:
            return trace
        shapes, steps = tuple(x.shape for x in trace.inputs), tuple(trace.steps.items())
        kept = guarded if trace.is_guarded else found
        kept.setdefault((shapes, trace.ranges, steps), trace)
    wide = [t for t in found.values() if t.inputs == list(inputs) and t.is_wide]
    if wide:  # of every size rather than of multiples
        return max(wide, key=lambda trace: (-max(trace.steps.values(), default=1), trace.spans))
    if len(found or guarded) == 1:
        (trace,) = (found or guarded).values()
        _warn_of_arbitrary(network, inputs, trace, bounds, source)
        return trace
    raise _refusal(source, inputs, first) from first


def _warn_of_arbitrary(
    network: nn.Module, inputs: Sequence[Input], trace: Trace, bounds: Bounds, source: str
) -> None:
    """Warn of extents that the trace fixed, though the graph fits another size of them as well.

    What it computes follows from them step by step, as in a recurrent layer without a function of
    all steps.
    """
    pairs = [(x.shape, own.shape) for x, own in zip(inputs, trace.inputs, strict=True)]
    both = [pair for names, own in pairs for pair in zip(names, own, strict=True)]
    sizes = {name: size for name, size in both if isinstance(name, str)}
    fixed = {name: size for name, size in sizes.items() if isinstance(size, int)}
    free = {n: _within(_DISTINCT[-1], bounds.get(n, (1, None))) for n in sizes if n not in fixed}
    for name, size in fixed.items():
        other = _within(size + 1, bounds.get(name, (1, None)))
        tried = {**free, **fixed, name: other}
        if other != size and misfit(network, inputs, tried) is None:
            told = f"{source}: is another program for each size of '{name}', and takes {size} now"
            warnings.warn(f"{told}; {_remedy(inputs)}.", UserWarning, stacklevel=2)


def _rehearsed(
    network: nn.Module, inputs: Sequence[Input], dims: Mapping[str, Any], sizes: dict[str, int]
) -> Trace:
    """Export with the dimensions ``dims``, if the network fits at ``sizes``."""
    if dims and (error := misfit(network, inputs, sizes)):
        raise error
    return exported(network, inputs, dims, sizes)


def _fitting(
    network: nn.Module,
    inputs: Sequence[Input],
    bounds: Bounds,
    tables: Sequence[Sequence[Sequence[int]]],
) -> Iterator[dict[str, int]]:
    """Yield the sizes of the first of ``tables`` at which the network fits; all if at none."""
    fits = False
    for rows in tables:
        for sizes in _sizes(rows, inputs, bounds):
            if misfit(network, inputs, sizes) is None:
                fits = True
                yield sizes
        if fits:
            return
    yield from _sizes(tables[0], inputs, bounds)


def _settled_by(
    error: OpenExtentError, inputs: Sequence[Input], bounds: Bounds, source: str
) -> tuple[list[Input], dict[str, Range]]:
    """Return ``inputs`` with what an operator wants one of their extents to be, and the bounds."""
    name, wanted = error.names([x.shape for x in inputs])
    limits = bounds.get(name or "", (1, None))
    unfit = isinstance(wanted, int) and wanted != _within(wanted, limits)
    if name is None or wanted is None or unfit:
        raise _refusal(source, inputs, error) from error
    found = {n: limits for n, limits in bounds.items() if n != name}
    if isinstance(wanted, str) and name in bounds:
        found[wanted] = common(bounds.get(wanted), limits)
    return [with_extents(x, {name: wanted}) for x in inputs], found


def _ranges(inputs: Sequence[Input], bounds: Bounds) -> dict[str, Range]:
    """Return the range of each open extent, in the order in which they are first seen."""
    names = dict.fromkeys(n for x in inputs for n in x.shape if isinstance(n, str))
    return {name: bounds.get(name, (1, None)) for name in names}


def _within(size: int, bounds: Range) -> int:
    low, high = bounds
    return max(low, size if high is None else min(size, high))


def _first_sizes(names: Any, bounds: Bounds) -> dict[str, int]:
    return {
        name: _within(_DISTINCT[i % len(_DISTINCT)], bounds.get(name, (1, None)))
        for i, name in enumerate(names)
    }


def _sizes(
    rows: Sequence[Sequence[int]], inputs: Sequence[Input], bounds: Bounds
) -> Iterator[dict[str, int]]:
    for row in rows:
        found: dict[str, int] = {}
        for x in inputs:
            for axis, name in enumerate(x.shape):
                if isinstance(name, str):
                    size = row[min(axis, len(row) - 1)]
                    found.setdefault(name, _within(size, bounds.get(name, (1, None))))
        yield found


def _refusal(source: str, inputs: Sequence[Input], error: Exception) -> Exception:
    """Return what to tell of a graph that fits none of the sizes."""
    open_axes = _open_axes(inputs)
    if isinstance(error, BranchError):
        return UnsupportedError(error.where, error.found, error.expected, error.todo)
    if isinstance(error, InputError):
        todo = _remedy(inputs) if open_axes else error.todo
        return InputError(error.where, error.found, error.expected, todo)
    if not open_axes:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return InputError(
            source,
            f"cannot be traced ({lines[0]})",
            "shapes that follow from the shapes of the inputs",
            "export the model again, with static extents where it needs them",
        )
    return InputError(
        source,
        f"does not fit all sizes of its open extents ({open_axes})",
        "a graph that fits every size from one on, or a range of them",
        _remedy(inputs),
    )


def _open_axes(inputs: Sequence[Input]) -> str:
    rows = [(x, a, n) for x in inputs for a, n in enumerate(x.shape) if isinstance(n, str)]
    return ", ".join(f"axis {axis} of '{x.name}', '{name}'" for x, axis, name in rows)


def _remedy(inputs: Sequence[Input]) -> str:
    x = next(x for x in inputs if any(isinstance(n, str) for n in x.shape))
    shape = ",".join(map(str, x.shape))
    return f"fix extents by example inputs or --shape {x.name}={shape} with numbers for names"
