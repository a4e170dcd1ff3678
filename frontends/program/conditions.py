"""Conditions that a program was traced under: ranges of its extents, or assertions of the program.

A program is right for sizes that answer all questions of the model's code as the example did. An
extent that may only be large enough gets a range. What is left, a multiple or an inequality of two
extents, is asserted whenever the program runs.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.value_ranges import ValueRanges

from tvm_sparse.frontends.program.asked_conditions import (
    CONDITIONS,
    Condition,
    of_several_extents,
    place_of,
)
from tvm_sparse.frontends.program.decided_extents import environments_of, holds_at, sizes_in
from tvm_sparse.frontends.program.extent_names import names_of_extents
from tvm_sparse.frontends.program.noted_guards import noted_guards
from tvm_sparse.frontends.program.scattered import fill_what_they_write

_TRIED = 12
"""Sizes of each extent that a condition of several ones is tried with."""


def conditions_of(program: torch.export.ExportedProgram) -> list[Condition]:
    """Return what the code of the model asked; of a program of somebody else, what PyTorch notes.

    What PyTorch notes, it asserts too when such a program runs: of operators, what they found of
    several extents counts. What operators ask only when they run is behind it. A saved program has
    all of it as text.
    """
    found = program.graph_module.meta.get(CONDITIONS)
    if found is None:
        environments, ranges = environments_of(program), program.range_constraints
        guards = [(guard, env) for env in environments for guard in env.guards]
        found = (Condition(e.replace(g.expr), place_of(g.sloc.framework_loc)) for g, e in guards)
        found = [c for c in dict.fromkeys(found) if c.place and c.symbols]
        several = itertools.chain.from_iterable(of_several_extents(environments))
        found += independent(several, found, ranges)
        found += [] if guards else noted_guards(program)
    return [*found, *fill_what_they_write(program)]


def failing(
    condition: Condition, ranges: Mapping[Any, ValueRanges[Any]]
) -> Iterator[dict[Any, int]]:
    """Yield sizes in ``ranges`` with which ``condition`` does not hold, small ones first."""
    symbols = condition.symbols
    columns = [sizes_in(ranges.get(symbol)) for symbol in symbols]
    if len(columns) > 1:
        tried = _TRIED if len(columns) == 2 else _TRIED // 2
        columns = [[*column[:tried], column[-1]] for column in columns]
    for row in sorted(itertools.product(*columns), key=sum):
        sizes = dict(zip(symbols, row, strict=True))
        if not holds_at(condition.expression, sizes):
            yield sizes


def least_and_larger(
    rows: Iterator[dict[Any, int]], example: Mapping[Any, int], count: int
) -> Iterator[dict[Any, int]]:
    """Yield the first ``count`` of ``rows``, and as many of those larger than the ``example``."""
    yield from itertools.islice(rows, count)
    larger = (row for row in rows if sum(row.values()) > sum(example.get(s, 1) for s in row))
    yield from itertools.islice(larger, count)


def independent(
    conditions: Iterable[Condition],
    known: Sequence[Condition],
    ranges: Mapping[Any, ValueRanges[Any]],
) -> list[Condition]:
    """Return those that do not hold at some sizes at which all that are ``known`` do.

    PyTorch notes what follows from a view of whole rows in several forms.
    """
    found: list[Condition] = []
    for condition in conditions:
        others = [k for k in (*known, *found) if {*k.symbols} <= {*condition.symbols}]
        rows = failing(condition, ranges)
        if any(all(holds_at(k.expression, row) for k in others) for row in rows):
            found.append(condition)
    return found


def bounded(
    program: torch.export.ExportedProgram, conditions: Sequence[Condition]
) -> tuple[torch.export.ExportedProgram, list[Condition], list[Condition]]:
    """Return ``program`` with narrower ranges of its extents, what narrowed them, and the rest."""
    ranges, left = dict(program.range_constraints), []
    narrowing: list[Condition] = []
    for condition in conditions:
        if len(condition.symbols) > 1:
            left.append(condition)
        elif next(failing(condition, ranges), None) is not None:
            (symbol,) = condition.symbols
            found = _interval(condition, symbol, sizes_in(ranges.get(symbol)))
            if found is None:
                left.append(condition)
                continue
            high = ranges[symbol].upper if symbol in ranges else int_oo
            ranges[symbol] = ValueRanges(found[0], high if found[1] is None else found[1])
            narrowing.append(condition)
    result = copy.copy(program)
    result._range_constraints = ranges
    return result, narrowing, left


def _interval(
    condition: Condition, symbol: Any, sizes: Sequence[int]
) -> tuple[int, int | None] | None:
    """Return the ends of the only range in which ``condition`` holds; None if there are more."""
    answers = [holds_at(condition.expression, {symbol: size}) for size in sizes]
    if [key for key, _ in itertools.groupby(answers)].count(True) != 1:
        return None
    first, last = answers.index(True), len(answers) - 1 - answers[::-1].index(True)
    low = _end(condition, sizes[first], sizes[first - 1]) if first else sizes[0]
    whole = last == len(sizes) - 1
    return low, None if whole else _end(condition, sizes[last], sizes[last + 1])


def _end(condition: Condition, inside: int, outside: int) -> int:
    """Return the last size before ``outside`` with which ``condition`` holds, by halves."""
    (symbol,) = condition.symbols
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if holds_at(condition.expression, {symbol: middle}):
            inside = middle
        else:
            outside = middle
    return inside


def assert_conditions(
    program: torch.export.ExportedProgram, conditions: Sequence[Condition]
) -> list[str]:
    """Let ``program``, which is ours, return what has to be true of its extents, and the texts.

    before: ``return y`` --> after: ``return y, held(b != t)``
    """
    if not conditions:
        return []
    names = {
        symbol: sympy.Symbol(name, integer=True)
        for symbol, name in names_of_extents(program).items()
    }
    output = program.graph.output_node()
    texts = []
    for condition in conditions:
        with program.graph.inserting_before(output):
            node = program.graph.call_function(held)
        node.meta["val"] = next(_values(program)).new_empty((), dtype=torch.bool)
        node.meta["condition"] = condition.expression
        output.args = ((*output.args[0], node),)
        spec = OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None)
        program.graph_signature.output_specs.append(spec)
        shown = PythonPrinter().doprint(condition.expression.xreplace(names))
        where = f"{condition.place}: " if condition.place else ""
        texts.append(f"{where}traced where {shown}; compile apart what is not")
    return texts


def held() -> torch.Tensor:
    """Stand for a condition, which the meta of the node has; the importer writes it out."""
    raise NotImplementedError


def _values(program: torch.export.ExportedProgram) -> Iterator[torch.Tensor]:
    values = (node.meta.get("val") for node in program.graph.find_nodes(op="placeholder"))
    return (value for value in values if isinstance(value, torch.Tensor))
