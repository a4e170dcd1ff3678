"""Conditions of saved programs: those of the text are those that the model's code asked."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.frontends.reloaded import reloaded
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.decided_extents import holds_at
from tvm_sparse.frontends.program.noted_guards import noted_guards
from tvm_sparse_runtime.errors import SparseRuntimeError

TOLD = {
    "a rest": lambda n, m: n % 4 == 0,
    "no rest": lambda n, m: not (n + m) % 5 == 0,
    "a product": lambda n, m: n * m > 60,
    "a quotient": lambda n, m: n / m > 1.5,
    "rounded up": lambda n, m: math.ceil(n / 3) % 2 == 0,
    "rounded down": lambda n, m: (n // 3) * m < 40,
    "an extent of another": lambda n, m: n != 2 * m - 1,
    "the larger": lambda n, m: max(n * 2, m) > 25,
    "the smaller": lambda n, m: min(n, m * m) <= 12,
    "a power": lambda n, m: n**2 + m > 100,
    "a root": lambda n, m: int(torch.sym_sqrt(n)) == 3,
    "a logarithm": lambda n, m: int(torch._sym_log2(n)) == 3,
}


class Asking(nn.Module):
    """Adds or multiplies, as its inputs' first extents decide."""

    def __init__(self, told):
        super().__init__()
        self.told = told

    def forward(self, *tensors, flag, scale):
        assert flag
        n, m = tensors[0].shape[0], scale["by"][0].shape[0]
        return tensors[0] + tensors[1] if self.told(n, m) else tensors[0] * tensors[1]


def saved(told, *, strict=False):
    """Return a program, saved and loaded, with 12 and 7 for its open extents, and what it asks."""
    args = torch.ones(12, 3), torch.ones(3)
    kwargs = {"flag": True, "scale": {"by": [torch.ones(7)]}}
    shapes = {
        "tensors": ({0: Dim.AUTO}, None),
        "flag": None,
        "scale": {"by": [{0: Dim.AUTO}]},
    }
    program = torch.export.export(Asking(told), args, kwargs, dynamic_shapes=shapes, strict=strict)
    return reloaded(program)


CASES = [(name, strict) for name in TOLD for strict in (False, True)][
    :-1
]  # Dynamo knows no logarithm


@pytest.mark.parametrize(("name", "strict"), CASES)
def test_they_hold_where_the_code_decides_alike(name, strict):
    told, program = TOLD[name], saved(TOLD[name], strict=strict)
    tensors = {n.name: n.meta["val"] for n in program.graph.find_nodes(op="placeholder")}
    n, m = (tensors[name].shape[0].node.expr for name in ("tensors_0", "scale_by_0"))
    found = noted_guards(program)
    ranges = program.range_constraints
    for sizes in itertools.product(range(2, 30), range(2, 16)):
        given = dict(zip((n, m), sizes, strict=True))
        inside = all(ranges[s].lower <= v <= ranges[s].upper for s, v in given.items())
        holds = inside and all(holds_at(c.expression, given) for c in found)
        assert holds == (told(*sizes) == told(12, 7)), sizes


def test_a_saved_program_is_refused_where_its_conditions_do_not_hold():
    library = ts.compile(saved(TOLD["a rest"]))

    def call(n):
        return library(torch.ones(n, 3), torch.ones(3), flag=True, scale={"by": [torch.ones(5)]})

    assert torch.equal(call(16), torch.full((16, 3), 2.0))
    with pytest.raises(SparseRuntimeError, match=r"\('traced where .*% 4\) == 0"):
        call(13)


def test_what_is_rounded_in_them_is_checked_in_whole_numbers():
    library = ts.compile(saved(lambda n, m: math.trunc(n * 1.5) * math.trunc(m * 0.5) > 50))
    tensors = torch.ones(12, 3), torch.ones(3)
    library(*tensors, flag=True, scale={"by": [torch.ones(7)]})
    with pytest.raises(SparseRuntimeError, match="traced where"):
        library(*tensors, flag=True, scale={"by": [torch.ones(5)]})


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd() == 3",
        "L['tensors'][0].__class__ == 3",
        "L['tensors'][0].size()[0] ** 99 == 1",
        "9 ** 9 ** 9 ** 9 == 1",
        "((9**16)**16)**16 == 1",
        "1 << 999999999 == 1",
        "L['else'].size()[0] == 1",
    ],
)
def test_other_text_is_refused_and_does_not_run(text):
    program = saved(TOLD["a rest"])
    program._guards_code = [text]
    with pytest.raises(UnsupportedError, match="condition that is not known"):
        noted_guards(program)
