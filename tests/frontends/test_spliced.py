"""Operators taken apart where they stand give the program that a whole trace gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch._ops import OpOverload
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F

from tests.frontends.test_taken_apart import NETWORKS
from tests.modules import Apply
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import known_operators
from tvm_sparse.frontends.decompositions import decompositions
from tvm_sparse.frontends.program import spliced as spliced_module
from tvm_sparse.frontends.program import taken_apart as own
from tvm_sparse.frontends.program.taken_apart import taken_apart

aten = torch.ops.aten
OPEN = {
    "planes": (
        nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.Hardswish(), nn.Flatten(2)),
        (torch.rand(2, 3, 8, 12), torch.rand(3, 3, 11, 7)),
    ),
    "rows": (
        nn.Sequential(nn.Linear(8, 6), nn.Softmax(-1), nn.LayerNorm(6)),
        (torch.rand(2, 5, 8), torch.rand(3, 4, 8)),
    ),
    "extents": (
        Apply(lambda x: x.reshape(x.shape[0], x.shape[1] * 8) * x.shape[1]),
        (torch.rand(2, 5, 8), torch.rand(3, 4, 8)),
    ),
}


LEFT_OUT = {"aten.clone.default", "aten.sym_size.int"}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram | None]:
    """What each program became by a trace of its parts."""
    found, was = [], own.spliced

    def noted(*args: Any) -> ExportedProgram | None:
        found.append(was(*args))
        return found[-1]

    monkeypatch.setattr(own, "spliced", noted)
    return found


def _operators(program: ExportedProgram) -> Counter[str]:
    """Return the operators that compute: memory and extents depend on what was traced."""
    program.graph.eliminate_dead_code()
    targets = (n.target for n in program.graph.nodes if isinstance(n.target, OpOverload))
    names = Counter(str(t).replace(".view.", ".reshape.") for t in targets)
    return Counter({n: c for n, c in names.items() if n not in LEFT_OUT})


def _whole(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    return program.run_decompositions(dict(table))


@pytest.mark.grid
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_what_a_whole_trace_computes(name, parts) -> None:
    net, x = NETWORKS[name]
    program, table = torch.export.export(net.eval(), (x,)), decompositions(known_operators())
    before = str(program)
    found, wanted = taken_apart(program, table), _whole(program, table)
    assert str(program) == before
    assert parts == [found]
    assert found.graph_signature.input_specs == wanted.graph_signature.input_specs
    assert _operators(found) == _operators(wanted)
    torch.testing.assert_close(found.module()(x), wanted.module()(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", OPEN)
def test_open_extents_stay_open(name, parts) -> None:
    net, (x, other) = OPEN[name]
    axes = {i: Dim.AUTO for i, (a, b) in enumerate(zip(x.shape, other.shape)) if a != b}
    program = torch.export.export(net.eval(), (x,), dynamic_shapes=(axes,))
    table = decompositions(known_operators())
    found, wanted = taken_apart(program, table), _whole(program, table)
    assert parts == [found]
    assert _operators(found) == _operators(wanted)
    assert found.range_constraints == wanted.range_constraints
    for given in (x, other):
        torch.testing.assert_close(found.module()(given), net(given), rtol=1e-5, atol=1e-6)


class _Head(nn.Module):
    """Attention over a sequence, and what layers around it do."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.outputs, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.inputs(x).unflatten(-1, (3, 2, 4)).movedim(-3, 0).transpose(-2, -3)
        found = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        return self.norm(x + F.hardswish(self.outputs(found)))


def test_layers_of_a_kind_are_traced_once(parts, monkeypatch) -> None:
    net, asked = nn.Sequential(_Head(), _Head(), _Head()).eval(), list[int]()
    table = dict(decompositions(known_operators()))
    rule = table[aten.scaled_dot_product_attention.default]

    def seen(*args: Any, **options: Any) -> Any:
        asked.append(1)
        return rule(*args, **options)

    table[aten.scaled_dot_product_attention.default] = seen  # no rule of ours: not asked before
    shapes = ({0: Dim("batch"), 1: Dim("length")},)
    program = torch.export.export(net, (torch.rand(2, 5, 8),), dynamic_shapes=shapes)
    found = taken_apart(program, table)
    assert parts == [found]
    assert len(asked) == 1
    assert _operators(found) == _operators(_whole(program, table))
    softmax = [n for n in found.graph.nodes if "softmax" in str(n.target)]
    layers = [[path for path, _ in n.meta["nn_module_stack"].values()][-1] for n in softmax]
    assert [str(layer)[-1] for layer in layers] == ["0", "1", "2"]
    for batch, length in ((2, 5), (3, 7)):
        x = torch.rand(batch, length, 8)
        torch.testing.assert_close(found.module()(x), net(x), rtol=1e-5, atol=1e-6)


def test_kinds_tell_operands_apart(parts) -> None:
    """One tensor twice, two tensors, numbers, types and extents make kinds of their own."""

    def forward(given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, y = given.unbind(1)
        lengths = torch.hypot(x, x), torch.hypot(x, y), torch.hypot(y, x), torch.hypot(y, y)
        bounded = F.hardtanh(x, -1, 1), F.hardtanh(y, -1, 0.5), F.hardtanh(x.double(), -1, 1)
        return *lengths, *bounded, F.hardswish(x[:, :3]), F.hardswish(x[:, 1:]), F.hardswish(x.T)

    net, shapes = Apply(forward), ({0: Dim("rows")},)
    program = torch.export.export(net, (torch.randn(4, 2, 6),), dynamic_shapes=shapes)
    found = taken_apart(program, decompositions(known_operators()))
    assert parts == [found]
    for rows in (4, 2, 9):
        given = torch.randn(rows, 2, 6) * 2
        torch.testing.assert_close(found.module()(given), net(given), rtol=1e-5, atol=1e-6)


def test_a_result_that_was_an_operand_is_one(parts) -> None:
    program = torch.export.export(Apply(lambda x: x.float()), (torch.rand(3),))
    found = taken_apart(program, decompositions())
    assert parts == [found]
    (spec,), (given,) = found.graph_signature.output_specs, found.graph_signature.user_inputs
    assert spec.arg.name == given


def test_a_program_of_nothing_to_take_apart_is_copied(parts) -> None:
    program = torch.export.export(Apply(torch.relu), (torch.rand(3),))
    found = taken_apart(program, {})
    assert parts == [found] and found is not program
    assert found.graph is not program.graph and str(found.graph) == str(program.graph)


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return F.hardswish(x) + self.calls


def _asserting(x: torch.Tensor) -> torch.Tensor:
    torch._check_tensor_all(x >= 0)
    return F.hardswish(x)


UNUSUAL = {
    "asserted": Apply(_asserting),
    "written": _Counting(),
    "counted": Apply(lambda x: F.hardswish(x.nonzero().float())),
    "branches": Apply(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_program_is_traced_whole(name, parts) -> None:
    program = torch.export.export(UNUSUAL[name], (torch.rand(3, 4),))
    table = decompositions(known_operators())
    found = taken_apart(program, table)
    assert parts == [None]
    assert _operators(found) == _operators(_whole(program, table))


def test_a_refusal_of_a_rule_is_not_asked_again(parts) -> None:
    def refuse(x: torch.Tensor) -> torch.Tensor:
        raise UnsupportedError("model", "has a sine")

    program = torch.export.export(Apply(torch.sin), (torch.rand(2),))
    with pytest.raises(UnsupportedError, match="has a sine"):
        taken_apart(program, {aten.sin.default: refuse})
    assert not parts


def test_a_rule_is_asked_without_computing():
    """Whether ours takes an operator apart is known before its first operator."""
    asked: list[Any] = []

    def rule(x: torch.Tensor) -> Any:
        asked.append(x.shape[0] == x.size(0) and x.device)
        if x.shape[1] == 5:
            return NotImplemented
        result = x + x
        asked.append("computed")
        return result

    rule.__module__ = f"{spliced_module._HERE}.decompositions.some"
    for columns, apart in ((5, False), (6, True)):
        example = (torch.rand(3, columns),)
        shapes = ({0: Dim("rows")},)
        program = torch.export.export(Apply(torch.relu), example, dynamic_shapes=shapes)
        (node,) = (n for n in program.graph.nodes if n.op == "call_function")
        with node.meta["val"].fake_mode:
            found = spliced_module._is_taken_apart(node, {node.target: rule})
        assert found is apart
    assert asked == [torch.device("cpu")] * 2
