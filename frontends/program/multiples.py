"""Open extents of inputs that are multiples of a symbol: ``2 * h``, ``32 * h``, ``2 * h + 1``.

In the function such an extent is a symbol of its own, ``H``, and the input is cast to
``H // 32 * 32``, which TVM simplifies as it simplifies multiples. In the specification it is
``32 * h``: who calls the function has checked that there is a whole ``h``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm import relax, tirx
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter
from tvm.sym import Analyzer, ConstIntBound
from tvm.tirx.analysis import undefined_vars

MULTIPLES = "multiples"
"""Attribute of ``main``: by the name of an extent its symbol, the factor, and what is added."""


class Importer(ExportedProgramImporter):
    """TVM's importer, for inputs whose extents are multiples of symbols, too.

    Parameters
    ----------
    steps
        Of which number a symbol of the program is a multiple, by its name.
    """

    def __init__(self, steps: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.steps = dict(steps or {})
        self.symbols: dict[str, Any] = {}
        """What symbols are that stand alone nowhere, by their names: quotients of extents."""
        self.multiples: dict[str, list[Any]] = {}
        self.bounds: dict[str, tuple[int, int | None]] = {}
        """The range of each open extent of the inputs, by its name."""
        self._own_extents: dict[str, Any] = {}
        self._cast_types: dict[str, Any] = {}

    def create_input_vars(self, exported_program: Any) -> tuple[Any, Any, Any]:
        """Return weights, inputs and bounds; each multiple is a symbol of the input's own."""
        weights, inputs, bounds = super().create_input_vars(exported_program)
        shapes = {name: [self._multiple_of(e) for e in x.ty.shape] for name, x in inputs.items()}
        alone = {e for shape in shapes.values() for e in shape if isinstance(e, tirx.Var)}
        for name, shape in shapes.items():
            pairs = [self._own_and_meant(e, alone, bounds) for e in shape]
            if any(own is not meant for own, meant in pairs):
                dtype = inputs[name].ty.dtype
                self._cast_types[name] = relax.TensorType([meant for _, meant in pairs], dtype)
                inputs[name] = relax.Var(name, relax.TensorType([own for own, _ in pairs], dtype))
        self.bounds = bounds
        return weights, inputs, bounds

    def _multiple_of(self, extent: Any) -> Any:
        """Return a multiple for a symbol that has a step."""
        return extent * self.steps.get(getattr(extent, "name", ""), 1)

    def _own_and_meant(
        self, extent: Any, alone: set[Any], bounds: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Return the input's own symbol of an extent, and what it is cast to."""
        unknown = set(undefined_vars(extent)) - alone
        if not unknown:
            return extent, extent
        (symbol,) = unknown  # PyTorch's derived dimensions have one
        rest = _at(extent, symbol, 0)
        step = _at(extent, symbol, 1) - rest
        name = f"{symbol.name}_times_{step}_and_{rest}"
        own = self._own_extents.setdefault(name, tirx.Var(name, "int64"))
        if symbol.name not in self.symbols:
            self.symbols[symbol.name] = tirx.floordiv(own - rest, step)
            low, high = bounds.get(symbol.name, (0, None))
            if symbol.name in self.steps:
                low, high = -(-low // step), None if high is None else high // step
                bounds[symbol.name] = low, high
            bounds[name] = low * step + rest, None if high is None else high * step + rest
        self.multiples[name] = [symbol.name, step, rest]
        return own, self.symbols[symbol.name] * step + rest

    def _translate_fx_graph(
        self, graph_module: Any, nodes: Any, inputs_vars: dict[str, Any], custom_ops: Any = None
    ) -> Any:
        types, self._cast_types = self._cast_types, {}
        cast = self.block_builder.match_cast
        casts = {name: cast(inputs_vars[name], kind) for name, kind in types.items()}
        return super()._translate_fx_graph(
            graph_module, self._settled(nodes), {**inputs_vars, **casts}, custom_ops
        )

    def _settled(self, nodes: Any) -> Iterator[Any]:
        """Yield each node; what was translated is seen with the extents that the bounds leave it.

        TVM knows no bounds: it could not join an extent that is always one with one.
        """
        for node in nodes:
            yield node
            value = self.env.get(node)
            if node.op != "call_function" or not isinstance(value, relax.Var):
                continue
            shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
            if shape is None or not isinstance(shape, relax.ShapeExpr):
                continue
            extents = list(shape)
            settled = [within(extent, self.bounds) for extent in extents]
            if any(a is not b for a, b in zip(settled, extents, strict=True)):
                seen = relax.op.reshape(value, relax.ShapeExpr(settled))
                self.env[node] = self.block_builder.emit(seen)


def within(extent: Any, bounds: Mapping[str, tuple[int, int | None]]) -> Any:
    """Return ``extent`` with fewer symbols, or as one, where ``bounds`` allow it."""
    symbols = undefined_vars(extent)
    if not symbols or isinstance(extent, tirx.Var):
        return extent
    known = Analyzer()
    for symbol in symbols:
        low, high = bounds.get(symbol.name, (0, None))
        known.update(symbol, ConstIntBound(low, ConstIntBound.POS_INF if high is None else high))
    span = known.const_int_bound(extent)
    if span.min_value == span.max_value:
        return tirx.IntImm("int64", span.min_value)
    extent = _decided(extent, known)
    simple = known.simplify(extent)
    fewer = len(undefined_vars(simple)) < len(symbols)
    return simple if fewer or isinstance(simple, tirx.Var) else extent


def _decided(extent: Any, known: Analyzer) -> Any:
    """Return the part of an extreme that it is for all sizes, in the form that the part has."""
    if not isinstance(extent, tirx.Max | tirx.Min):
        return extent
    parts = (extent.a, extent.b) if isinstance(extent, tirx.Max) else (extent.b, extent.a)
    large, small = parts
    if known.can_prove(large >= small):
        return extent.a
    return extent.b if known.can_prove(small >= large) else extent


def noted(main: relax.Function) -> dict[str, tuple[str, int, int]]:
    """Return by the name of each extent its symbol, the factor, and what is added."""
    found = (main.attrs or {}).get(MULTIPLES, {})
    return {str(n): (str(s), int(step), int(rest)) for n, (s, step, rest) in found.items()}


def spelled_out(extent: Any, multiples: Mapping[str, tuple[str, int, int]]) -> Any:
    """Return ``extent`` with multiples of symbols for the extents that are some."""
    known = Analyzer()
    symbols: dict[str, Any] = {}
    for variable in undefined_vars(extent) if multiples else ():
        if variable.name in multiples:
            name, step, rest = multiples[variable.name]
            symbol = symbols.setdefault(name, tirx.Var(name, "int64"))
            known.bind(variable, symbol * step + rest)
    return known.simplify(extent) if symbols else extent


def _at(extent: Any, symbol: Any, value: int) -> int:
    """Return the value of an extent at one of its symbol."""
    known = Analyzer()
    known.bind(symbol, tirx.IntImm("int64", value))
    return int(known.simplify(extent))
