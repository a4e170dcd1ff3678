"""Open extents stay open when operators are taken apart, or the operator is named."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.frontends.program.agreement import agree
from tvm_sparse.frontends.program.decided_extents import OpenExtents, environments_of, solutions
from tvm_sparse.frontends.quiet import quiet

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


def program_of(function, rows: Dim | None = None) -> torch.export.ExportedProgram:
    shapes = ({0: rows or Dim("n", min=2, max=61)},)
    return torch.export.export(Apply(function), (torch.rand(9, 4),), dynamic_shapes=shapes)


def row_by_row(x):
    for _ in range(x.shape[0]):
        x = x + 1
    return x


def unlike_nine(x):
    return x + 1 if x.shape[0] < 40 else x


@pytest.mark.parametrize("rule", [row_by_row, unlike_nine])
def test_what_decides_an_extent_is_named(rule):
    program = program_of(torch.sin)
    table = OpenExtents(program).watched({torch.ops.aten.sin.default: rule})
    told = r"operator .torch.sin. makes a number of an extent"
    with quiet(), pytest.raises(ts.SparseError, match=told):
        program.run_decompositions(table)


def test_conditions_that_hold_at_every_size_are_fine():
    program = program_of(torch.sin)
    opened = OpenExtents(program)
    table = opened.watched({torch.ops.aten.sin.default: lambda x: x + 1 if x.shape[0] < 62 else x})
    with quiet():
        program.run_decompositions(table)
    opened.check("nothing")


def test_a_factor_of_one_may_be_left_out():
    program = program_of(torch.sin)
    rule = OpenExtents(program).watched(
        {torch.ops.aten.sin.default: lambda x: x * x.shape[0] if x.shape[0] / 2 != 1 else x}
    )
    with quiet():
        program.run_decompositions(rule)


class Added(nn.Module):
    def forward(self, x, y):
        return x + y


@pytest.mark.parametrize(("most", "holds"), [(128, True), (129, False)])
def test_a_condition_on_a_joined_extent_has_the_range_of_the_other(most, holds):
    both = {0: Dim.DYNAMIC(min=2, max=most)}, {0: Dim.DYNAMIC(min=2, max=most)}
    given = torch.rand(9, 4), torch.rand(9, 4)
    program = torch.export.export(Added(), given, dynamic_shapes=both)
    (environment,) = environments_of(program)
    ((joined, kept),) = environment.replacements.items()
    program.range_constraints.pop(joined, None)
    assert kept in program.range_constraints
    opened = OpenExtents(program)
    environment.guards.append(SimpleNamespace(expr=sympy.Eq(joined, sympy.Min(128, joined))))
    assert opened.holds() == holds


@pytest.mark.parametrize("equal", [True, False])
def test_what_strides_decide_is_compared_at_both_ends(equal):
    program = program_of(lambda x: x * 2, Dim("n", min=2, max=61))
    (symbol,) = program.range_constraints
    (environment,) = environments_of(program)
    opened, asked = OpenExtents(program, compared=True), []

    def agree(sizes):
        asked.append(sizes[symbol])
        return equal

    whole = 8 * FloorDiv(symbol + 7, 8)
    strides = sympy.Ne(4 * sympy.Max(1, whole), 4 * sympy.Min(symbol, whole))
    environment.guards.append(SimpleNamespace(expr=strides))
    opened.check("an operator")
    if equal:
        opened.compare(agree)
        assert asked == [8, 16, 48, 56]
        environment.guards.append(SimpleNamespace(expr=strides))  # nobody compares any more
        assert not opened.holds()
    else:
        with pytest.raises(ts.UnsupportedError, match="makes a number of an extent"):
            opened.compare(agree)


def test_forms_of_a_program_agree_at_sizes():
    forms = (lambda x: x + x.shape[0] % 2, lambda x: x + 0)
    before, after = (program_of(form, Dim("n", min=2, max=61)) for form in forms)
    (symbol,) = before.range_constraints
    assert agree(before, after, {symbol: 16})
    assert not agree(before, after, {symbol: 17})


class Repeated(nn.Module):
    def forward(self, x, y, steps):
        first, second = torch.cat([x, y]).chunk(2)
        for _ in range(steps):
            first = F.grid_sample(first, second.movedim(1, -1), align_corners=False).mul_(2)
        return first


def test_an_argument_that_is_a_number_is_no_open_extent():
    batch = {0: Dim("batch", min=1, max=9)}
    shapes = {"x": batch, "y": batch, "steps": None}
    library = ts.compile(
        Repeated(), (torch.rand(2, 2, 4, 4), torch.rand(2, 2, 4, 4), 2),
        dynamic_shapes=shapes, config=CONFIG,
    )  # fmt: skip
    for count in (1, 2, 7):
        x, y = torch.rand(count, 2, 4, 4), torch.rand(count, 2, 4, 4)
        torch.testing.assert_close(library(x, y, 2), Repeated()(x, y, 2))


def test_sizes_that_make_an_extent_one():
    program = program_of(lambda x: (x[2:], x[: x.shape[0] - 3]), Dim("n", min=6, max=61))
    (symbol,) = program.range_constraints
    assert solutions(program, symbol, 7) == [7, 9, 10]


class Searched(nn.Module):
    def forward(self, x):
        return torch.searchsorted(x.sort(1)[0], x[:, :2], right=True)


class Bucketed(nn.Module):
    def forward(self, x):
        return torch.bucketize(x, torch.arange(x.shape[1]).float() / 10)


@pytest.mark.grid
@pytest.mark.parametrize("model", [Searched(), Bucketed()])
def test_positions_in_lists_of_open_length(model):
    shapes = ({1: Dim("n", min=2, max=61)},)
    library = ts.compile(model, (torch.rand(2, 9),), dynamic_shapes=shapes, config=CONFIG)
    for length in (2, 8, 9, 10, 31, 61):
        x = torch.rand(2, length)
        torch.testing.assert_close(library(x), model(x), rtol=0, atol=0)
