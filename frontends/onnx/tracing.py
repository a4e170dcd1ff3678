"""A network of free extents as an exported program: sizes to trace at, and which extents agree."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental import _config as fx_config
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.onnx.agreement import BranchError, OpenExtentError
from tvm_sparse.frontends.onnx.inputs import Input, Range
from tvm_sparse.frontends.onnx.ranges import LARGEST, ranges_of, settled, size_at
from tvm_sparse.frontends.quiet import quiet

_log = logging.getLogger(__name__)

Bounds = Mapping[str, Range]

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


@dataclass(frozen=True)
class Trace:
    """A program, its inputs with the extents that are left open, and the ranges of these."""

    program: torch.export.ExportedProgram
    inputs: list[Input]
    ranges: tuple[Range, ...] = ()

    @property
    def is_unlimited(self) -> bool:
        """Whether every extent may be as large as one likes."""
        return all(high is None for _, high in self.ranges)

    @property
    def spans(self) -> list[int]:
        """How many sizes each range has, the smallest number first."""
        return sorted(LARGEST if high is None else high - low for low, high in self.ranges)

    @property
    def is_wide(self) -> bool:
        """Whether every range is more than the neighbourhood of the size it was found at."""
        return all(high is None or high >= 2 * low for low, high in self.ranges)

    @property
    def symbols(self) -> list[dict[int, str]]:
        """Names of the open extents of each input by their axes."""
        return _symbols(self.inputs)


def traced(network: nn.Module, inputs: Sequence[Input], bounds: Bounds, source: str) -> Trace:
    """Export ``network`` with every extent open that it leaves open.

    First all extents of different names are taken as different and any size from one on. Where
    the graph does not allow that, PyTorch is asked which extents it takes as equal, at several
    sizes, and the range in which the trace holds is worked out.

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
    sizes = _first_sizes(plain, bounds)
    try:
        return _exported(network, inputs, plain, sizes)
    except UnsupportedError:
        raise
    except OpenExtentError as error:
        return traced(network, _settled_by(error, inputs, bounds, sizes, source), bounds, source)
    except Exception as error:
        if not plain:
            raise _refusal(source, inputs, error) from error
        first = error
    found: dict[Any, Trace] = {}
    for sizes in _later_sizes(inputs, bounds):
        try:
            trace = _automatic(network, inputs, sizes, bounds)
        except UnsupportedError:
            raise
        except OpenExtentError as error:
            known = _settled_by(error, inputs, bounds, sizes, source)
            return traced(network, known, bounds, source)
        except Exception as error:
            _log.debug("%s at %s: %s", source, sizes, error)
            continue
        if trace is not None and trace.inputs == list(inputs) and trace.is_unlimited:
            return trace
        if trace is not None:
            found[tuple(x.shape for x in trace.inputs), trace.ranges] = trace
    wide = [t for t in found.values() if t.inputs == list(inputs) and t.is_wide]
    if wide:
        return max(wide, key=lambda trace: trace.spans)
    if len(found) == 1:
        return next(iter(found.values()))
    raise _refusal(source, inputs, first) from first


def _settled_by(
    error: OpenExtentError,
    inputs: Sequence[Input],
    bounds: Bounds,
    sizes: Mapping[str, int],
    source: str,
) -> list[Input]:
    """Return ``inputs`` with the number that an operator wants for one of their extents."""
    name = error.name_of(sizes)
    if name is None or error.wanted != _within(error.wanted, bounds.get(name, (1, None))):
        raise _refusal(source, inputs, error) from error
    return [_with(x, {name: error.wanted}) for x in inputs]


def _ranges(inputs: Sequence[Input], bounds: Bounds) -> dict[str, tuple[int, int | None]]:
    """Return the range of each open extent, in the order in which they are first seen."""
    names = dict.fromkeys(n for x in inputs for n in x.shape if isinstance(n, str))
    return {name: bounds.get(name, (1, None)) for name in names}


def _within(size: int, bounds: tuple[int, int | None]) -> int:
    low, high = bounds
    return max(low, size if high is None else min(size, high))


def _first_sizes(names: Any, bounds: Bounds) -> dict[str, int]:
    return {
        name: _within(_DISTINCT[i % len(_DISTINCT)], bounds.get(name, (1, None)))
        for i, name in enumerate(names)
    }


def _later_sizes(inputs: Sequence[Input], bounds: Bounds) -> Iterator[dict[str, int]]:
    for row in _SIZES:
        found: dict[str, int] = {}
        for x in inputs:
            for axis, name in enumerate(x.shape):
                if isinstance(name, str):
                    size = row[min(axis, len(row) - 1)]
                    found.setdefault(name, _within(size, bounds.get(name, (1, None))))
        yield found


def _exported(
    network: nn.Module, inputs: Sequence[Input], dims: Mapping[str, Any], sizes: Mapping[str, int]
) -> Trace:
    """Export with the dimensions ``dims`` for the open extents."""
    shapes = [{a: dims[n] for a, n in axes.items()} for axes in _symbols(inputs)]
    return Trace(_program(network, inputs, shapes, sizes), list(inputs))


def _symbols(inputs: Sequence[Input]) -> list[dict[int, str]]:
    """Return the names of the open extents of each input by their axes."""
    return [{a: n for a, n in enumerate(x.shape) if isinstance(n, str)} for x in inputs]


def _program(
    network: nn.Module,
    inputs: Sequence[Input],
    shapes: list[dict[int, Any]],
    sizes: Mapping[str, int],
) -> torch.export.ExportedProgram:
    examples = [_example(x, sizes) for x in inputs]
    # Else whether an extent is one, which nothing here asks for, is a condition of the program.
    oblivious = fx_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    with quiet(), torch.no_grad(), oblivious:
        return torch.export.export(
            network, tuple(examples), dynamic_shapes=(tuple(shapes),) if inputs else None
        )


def _example(x: Input, sizes: Mapping[str, int]) -> torch.Tensor:
    """Return a tensor whose elements nobody reads."""
    shape = [sizes[n] if isinstance(n, str) else n for n in x.shape]
    with contextlib.suppress(RuntimeError):  # there is no memory for it
        return torch.empty(shape, dtype=x.dtype)
    raise InputError(x.place, f"has the shape {shape}", "one that fits into memory")


def _automatic(
    network: nn.Module, inputs: Sequence[Input], sizes: Mapping[str, int], bounds: Bounds
) -> Trace | None:
    """Export at ``sizes``; PyTorch finds which extents are equal, its guards say how large.

    An extent that can only be a number is one in the result. Returns None where the guards hold
    for no range of sizes, or an extent is a multiple of another one.
    """
    shapes = [dict.fromkeys(axes, Dim.AUTO) for axes in _symbols(inputs)]
    program = _program(network, inputs, shapes, sizes)
    found: dict[str, Any] = {}
    for x, shape in zip(inputs, _shapes(program), strict=True):
        pairs = zip(x.shape, shape, strict=True)
        found.update((name, settled(n)) for name, n in pairs if isinstance(name, str))
    numbers = {name: n for name, n in found.items() if isinstance(n, int)}
    if numbers:
        return _automatic(network, [_with(x, numbers) for x in inputs], sizes, bounds)
    wanted: dict[Any, Range] = {}
    for name, symbol in found.items():
        wanted[symbol] = _common(wanted.get(symbol), bounds.get(name, (1, None)))
    traced_at = {symbol: sizes[name] for name, symbol in found.items()}
    if not all(symbol.is_Symbol for symbol in wanted):
        return None
    ranges = ranges_of(program, traced_at, wanted)
    if ranges is None:
        return None
    ones = {s for s, (low, _) in ranges.items() if low == 2 and wanted[s][0] == 1}
    if ones and _same_at_one(network, inputs, program, ones, (found, sizes)):
        ranges |= {symbol: (1, ranges[symbol][1]) for symbol in ones}
    for symbol, (low, high) in ranges.items():
        program.range_constraints[symbol] = ValueRanges(low, int_oo if high is None else high)
    return Trace(program, list(inputs), tuple(ranges.values()))


def _same_at_one(
    network: nn.Module,
    inputs: Sequence[Input],
    program: torch.export.ExportedProgram,
    ones: Collection[Any],
    traced: tuple[Mapping[str, Any], Mapping[str, int]],
) -> bool:
    """Whether a trace with 1 for the symbols ``ones`` gives the shapes that ``program`` gives.

    PyTorch asks whether an extent is one when it lays out memory and takes products apart, which
    no result depends on. What does depend on it, a squeeze of all such axes, shows in the shapes.
    """
    symbols, sizes = traced
    numbers = {name: 1 if symbol in ones else sizes[name] for name, symbol in symbols.items()}
    try:
        single = _program(network, [_with(x, numbers) for x in inputs], [{} for _ in inputs], {})
    except Exception as error:
        _log.debug("at one: %s", error)
        return False
    values = {symbol: numbers[name] for name, symbol in symbols.items()}
    shapes = [tuple(size_at(n, values) for n in shape) for shape in _results(program)]
    _log.debug("at one: %s and %s", shapes, _results(single))
    return shapes == _results(single)


def _with(x: Input, numbers: Mapping[str, int]) -> Input:
    """Return ``x`` with ``numbers`` for names."""
    shape = (numbers.get(n, n) if isinstance(n, str) else n for n in x.shape)
    return replace(x, shape=tuple(shape))


def _common(a: Range | None, b: Range) -> Range:
    """Return the range that lies in both."""
    if a is None:
        return b
    highs = [high for high in (a[1], b[1]) if high is not None]
    return max(a[0], b[0]), min(highs, default=None)


def _shapes(program: torch.export.ExportedProgram) -> list[Any]:
    """Return the shape of each input of ``program``."""
    names = set(program.graph_signature.user_inputs)
    nodes = program.graph.find_nodes(op="placeholder")
    return [tuple(n.meta["val"].shape) for n in nodes if n.name in names]


def _results(program: torch.export.ExportedProgram) -> list[tuple[Any, ...]]:
    """Return the shape of each output of ``program``."""
    (returned,) = program.graph.output_node().args
    values: Any = [node.meta["val"] for node in returned]
    return [tuple(value.shape) for value in values]


def _refusal(source: str, inputs: Sequence[Input], error: Exception) -> Exception:
    """Return what to tell of a graph that fits none of the sizes."""
    open_axes = _open_axes(inputs)
    if isinstance(error, BranchError):
        return error
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
