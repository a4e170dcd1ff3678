"""One trace of a network at one size of each open extent, and the ranges that it holds for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental import _config as fx_config
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.alone import ALONE
from tvm_sparse.frontends.onnx.inputs import Extent, Input, Range
from tvm_sparse.frontends.onnx.least_sizes import lowered
from tvm_sparse.frontends.onnx.ranges import (
    LARGEST,
    is_wide,
    only_sizes,
    ranges_of,
    settled,
    size_at,
)
from tvm_sparse.frontends.onnx.rehearsal import shapes_at
from tvm_sparse.frontends.program.known_shapes import KnownShapes
from tvm_sparse.frontends.program.one_division import OneDivision
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients
from tvm_sparse.frontends.quiet import quiet

_log = logging.getLogger(__name__)

Bounds = Mapping[str, Range]


@dataclass(frozen=True)
class Trace:
    """A program, its inputs with the extents that are left open, and the ranges of these."""

    program: torch.export.ExportedProgram
    inputs: list[Input]
    ranges: tuple[Range, ...] = ()
    steps: Mapping[str, int] = field(default_factory=dict)
    """Of which number an extent is a multiple, by its name."""
    symbol_steps: Mapping[str, int] = field(default_factory=dict)
    """The same by the name of the program's symbol."""
    is_guarded: bool = False
    """Whether guards alone say that an extent is the number that ``inputs`` have for it."""

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
        return all(is_wide(limits) for limits in self.ranges)

    @property
    def symbols(self) -> list[dict[int, str]]:
        """Names of the open extents of each input by their axes; of the factor of a multiple."""
        named = {name: f"{name}_by_{step}" for name, step in self.steps.items()}
        return [{a: named.get(n, n) for a, n in axes.items()} for axes in _symbols(self.inputs)]


def exported(
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
    with (
        ALONE,
        quiet(),
        torch.no_grad(),
        oblivious,
        OneDivision(),
        WholeQuotients(),
        KnownShapes(),
        _agreeing(network, inputs),
    ):
        return torch.export.export(
            network, tuple(examples), dynamic_shapes=(tuple(shapes),) if inputs else None
        )


@contextlib.contextmanager
def _agreeing(network: nn.Module, inputs: Sequence[Input]) -> Iterator[None]:
    """Let extents of one name be equal where ``network`` is called, which the graph may not say."""

    def unite(_network: nn.Module, given: Sequence[torch.Tensor]) -> None:
        first: dict[str, Any] = {}
        for x, tensor in zip(inputs, given, strict=True):
            for name, extent in zip(x.shape, tensor.shape, strict=True):
                if isinstance(name, str):
                    torch._check(first.setdefault(name, extent) == extent)

    hook = network.register_forward_pre_hook(unite)
    try:
        yield
    finally:
        hook.remove()


def _example(x: Input, sizes: Mapping[str, int]) -> torch.Tensor:
    """Return a tensor whose elements nobody reads."""
    shape = [sizes[n] if isinstance(n, str) else n for n in x.shape]
    with contextlib.suppress(RuntimeError):  # there is no memory for it
        return torch.empty(shape, dtype=x.dtype)
    raise InputError(x.place, f"has the shape {shape}", "one that fits into memory")


def automatic(
    network: nn.Module, inputs: Sequence[Input], sizes: Mapping[str, int], bounds: Bounds
) -> Trace | None:
    """Export at ``sizes``; PyTorch finds which extents are equal, its guards say how large.

    An extent that can only be a number is one in the result. Returns None where the guards of
    several extents hold for no range of sizes, or an extent is a multiple of another one.
    """
    shapes = [dict.fromkeys(axes, Dim.AUTO) for axes in _symbols(inputs)]
    program = _program(network, inputs, shapes, sizes)
    found: dict[str, Any] = {}
    for x, shape in zip(inputs, _shapes(program), strict=True):
        pairs = zip(x.shape, shape, strict=True)
        found.update((name, settled(n)) for name, n in pairs if isinstance(name, str))
    numbers = {name: n for name, n in found.items() if isinstance(n, int)}
    if numbers:
        return automatic(network, [with_extents(x, numbers) for x in inputs], sizes, bounds)
    wanted: dict[Any, Range] = {}
    for name, symbol in found.items():
        wanted[symbol] = common(wanted.get(symbol), bounds.get(name, (1, None)))
    traced_at = {symbol: sizes[name] for name, symbol in found.items()}
    if not all(symbol.is_Symbol for symbol in wanted):
        return None
    fits = ranges_of(program, traced_at, wanted)
    if fits is None:
        only = only_sizes(program, traced_at, wanted)
        numbers = {name: sizes[name] for name, symbol in found.items() if symbol in only}
        if not numbers:
            return None
        known = [with_extents(x, numbers) for x in inputs]
        trace = automatic(network, known, sizes, bounds)
        return trace and replace(trace, is_guarded=True)
    ranges, steps = fits
    plain = ranges.keys() - steps.keys()
    ones = {s for s in plain if ranges[s][0] == 2 and wanted[s][0] == 1}
    if ones and _same_at_one(network, inputs, program, ones, (found, sizes)):
        ranges |= {symbol: (1, ranges[symbol][1]) for symbol in ones}
    own = {symbol: ranges[symbol] for symbol in plain}
    with quiet():
        ranges |= lowered(network, inputs, program, (found, sizes), (own, wanted))
    for symbol, (low, high) in ranges.items():
        program.range_constraints[symbol] = ValueRanges(low, int_oo if high is None else high)
    named = {name: steps[symbol] for name, symbol in found.items() if symbol in steps}
    by_symbol = {str(symbol): step for symbol, step in steps.items()}
    return Trace(program, list(inputs), tuple(ranges.values()), named, by_symbol)


def _same_at_one(
    network: nn.Module,
    inputs: Sequence[Input],
    program: torch.export.ExportedProgram,
    ones: Collection[Any],
    traced: tuple[Mapping[str, Any], Mapping[str, int]],
) -> bool:
    """Whether 1 for the symbols ``ones`` gives the shapes that ``program`` gives.

    PyTorch asks whether an extent is one when it lays out memory and takes products apart, which
    no result depends on. What does depend on it, a squeeze of all such axes, shows in the shapes.
    """
    symbols, sizes = traced
    numbers = {name: 1 if symbol in ones else sizes[name] for name, symbol in symbols.items()}
    try:
        found = shapes_at(network, inputs, numbers)
    except Exception as error:
        _log.debug("at one: %s", error)
        return False
    values = {symbol: numbers[name] for name, symbol in symbols.items()}
    shapes = [tuple(size_at(n, values) for n in shape) for shape in _results(program)]
    _log.debug("at one: %s and %s", shapes, found)
    return shapes == found


def with_extents(x: Input, known: Mapping[str, Extent]) -> Input:
    """Return ``x`` with numbers, or other names, for names."""
    shape = (known.get(n, n) if isinstance(n, str) else n for n in x.shape)
    return replace(x, shape=tuple(shape))


def common(a: Range | None, b: Range) -> Range:
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
