"""Names of symbolic extents that a reader of an input specification knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from tvm_sparse.frontends.program.multiples import MULTIPLES, noted


def with_symbol_names(
    module: tvm.IRModule, symbols: Sequence[Mapping[int, str]] | None
) -> tvm.IRModule:
    """Give symbolic extents names that a reader of an input specification knows."""
    main = module["main"]
    inputs = list(main.params[: int(main.attrs["num_input"])])
    names = _batch(inputs) if symbols is None else _named(inputs, symbols)
    if not names:
        return module
    multiples = noted(main)
    new = {multiples.get(s.name, (s.name,))[0]: name for s, name in names.items()}
    alone = {s: name for s, name in names.items() if s.name not in multiples}
    function = main.bind_symbolic_vars(
        {symbol: tvm.tirx.Var(name, "int64") for symbol, name in alone.items()}
    )
    if multiples:
        found = {n: [new.get(s, s), step, rest] for n, (s, step, rest) in multiples.items()}
        function = function.with_attr(MULTIPLES, found)
    for bound in ("tir_var_lower_bound", "tir_var_upper_bound"):
        if bound in main.attrs:
            values = {new.get(k, k): v for k, v in main.attrs[bound].items()}
            function = function.with_attr(bound, values)
    result = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
    result.update_func(result.get_global_var("main"), function)
    return relax.transform.Normalize()(result)


def _batch(inputs: list[relax.Var]) -> dict[tvm.tirx.Var, str]:
    """Return the name ``batch`` for a lone symbol in the leading extents of the inputs.

    Exporters number their symbols (``s77``), which no reader of an input specification knows.
    """
    symbols = {d for p in inputs for d in p.ty.shape if isinstance(d, tvm.tirx.Var)}
    leading = {p.ty.shape[0] for p in inputs if len(p.ty.shape)}
    return dict.fromkeys(symbols, "batch") if len(symbols) == 1 and symbols <= leading else {}


def _named(
    inputs: list[relax.Var], symbols: Sequence[Mapping[int, str]]
) -> dict[tvm.tirx.Var, str]:
    """Return the names that ``symbols`` gives to extents, those of one extent only once."""
    names: dict[tvm.tirx.Var, str] = {}
    for parameter, axes in zip(inputs, symbols, strict=True):
        for axis, name in axes.items():
            extent = parameter.ty.shape[axis]
            if isinstance(extent, tvm.tirx.Var) and name not in names.values():
                names.setdefault(extent, name)
    return names
