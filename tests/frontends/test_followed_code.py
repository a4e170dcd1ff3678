"""Python's functions of numbers leave open extents open in a model's code."""

from __future__ import annotations

import functools
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FunctionType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, export
from tvm import relax

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.frontends.modules.followed_code import followed_code
from tvm_sparse.frontends.modules.open_numbers import OpenFloat, OpenInt
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SIZES = (1, 2, 3, 10, 17, 40)


def kept(x, share):
    return x[:, : max(1, int(x.shape[1] * share))]


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@decorated
def flat(x):
    return x.reshape(int(x.shape[0]), int(np.prod(x.shape[1:])))


FORMS = {
    "an extent": lambda x: x.reshape(int(x.shape[0]), int(x.shape[1]) * 4),
    "half": lambda x: (x[:, : int(x.shape[1] / 2)].sum(1), x[:, int(x.shape[1] * 0.5) :]),
    "multiples": lambda x: x[:, : int((x.shape[1] - 1) / 4) * 4 + 1],
    "a share": lambda x: kept(x, 0.3) + kept(x, 0.3),
    "a decorated function": flat,
    "inside of a function": lambda x: torch.stack([x[:, int(x.shape[1] / k)] for k in (2, 3)]),
    "numpy": lambda x: (x[:, : int(np.ceil(x.shape[1] / 2))], x[:, int(np.floor(2.5)) - 2 :]),
    "roots": lambda x: x / math.sqrt(x.shape[1]) * np.sqrt(x.shape[0]),
    "logarithms": lambda x: (
        x * math.log(x.shape[1]) / math.log(64),
        x * math.log(x.shape[1] + 1, 512) + math.log2(x.shape[0]) + math.log10(5) + np.log(3.0),
    ),
    "a number": lambda x: x / torch.tensor(float(x.shape[1])) + float("2"),
    "constants": lambda x: x[:, : int("1")] * float(math.sqrt(4)) * int(2.5) * np.prod([2, 3]),
    "types": lambda x: x * (2 if isinstance(int(2.5), int) and int == int else 3),  # noqa: E721
    "a scale": lambda x: F.interpolate(x.mT, int(x.shape[1] * 1.5) + 1).mT,
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_right_at_every_size(name):
    model = Apply(FORMS[name])
    shapes = ({0: Dim("b", min=1, max=8), 1: Dim("n", min=1, max=40)},)
    library = ts.compile(model, (torch.rand(3, 10, 4),), dynamic_shapes=shapes, config=CONFIG)
    for batch, size in zip((1, 8, 3, 2, 1, 5), SIZES, strict=True):
        x = torch.rand(batch, size, 4)
        found, wanted = library(x), model(x)
        many = isinstance(wanted, tuple)
        for got, want in zip(*(r if many else (r,) for r in (found, wanted)), strict=True):
            torch.testing.assert_close(got, want)


class Layers(nn.Module):
    """Reads what has the name of a function, and keeps a function of its own."""

    def __init__(self):
        super().__init__()
        self.int, self.cut = 2, lambda x: x[:, : int(x.shape[1])]

    @staticmethod
    def half(x):
        return x[:, : int(x.shape[1] / 2) + 1]

    @property
    def float(self):
        return float(3)

    def forward(self, x):
        return self.cut(self.half(x)) * self.float * self.int


def test_code_is_as_before():
    model, x = Layers(), torch.rand(3, 10)
    functions = (Layers.half, Layers.forward, Layers.float.fget, model.cut, kept)
    before = [f.__code__ for f in functions], np.prod, math.sqrt
    with WholeQuotients(), followed_code(model):
        assert Layers.half.__code__ is not before[0][0]
        assert Layers.forward.__code__ is before[0][1]  # its ``int`` is an attribute
        assert np.prod is not before[1]
        during = Layers.half.__code__
        assert math.sqrt(9) == 3 and np.prod([2, 3], axis=0) == 6
        found = export(model, (x,), dynamic_shapes=({1: Dim.AUTO},))
        assert isinstance(found.graph.output_node().args[0][0].meta["val"].shape[1], torch.SymInt)
    assert before == ([f.__code__ for f in functions], np.prod, math.sqrt)
    late = FunctionType(during, globals())  # as a thread has it that called it meanwhile
    assert torch.equal(late(x), Layers.half(x))
    assert torch.equal(model(x), x[:, :6] * 6)


def test_types_are_asked_what_python_asks_its_own():
    assert isinstance(3, OpenInt) and not isinstance("3", OpenInt) and issubclass(bool, OpenInt)
    assert isinstance(3.0, OpenFloat) and hash(OpenInt) == hash(int)
    assert OpenInt == int and OpenInt != float  # noqa: E721
    assert OpenInt("11", base=2) == 3 and type(OpenInt(2.5)) is int and OpenFloat("2") == 2.0
    assert OpenInt.from_bytes(b"a", "big") == 97 and OpenInt() == 0


@contextmanager
def quick_switches():
    """Let threads take turns so often that what they share is met within a few seconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_threads_compile_at_the_same_time():
    """What one thread exchanges another one finds exchanged, and would put it back so."""
    before = math.sqrt, np.prod, FakeTensorMode._dispatch_impl
    shapes = ({0: Dim("rows", min=1, max=64)},)

    def compiled(width):
        model = nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.LayerNorm(8)).eval()
        library = ts.compile(model, (torch.rand(4, width),), dynamic_shapes=shapes, config=CONFIG)
        x = torch.rand(7, width)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-6)

    with quick_switches(), ThreadPoolExecutor(4) as pool:
        list(pool.map(compiled, range(5, 17)))
    assert before == (math.sqrt, np.prod, FakeTensorMode._dispatch_impl)
    assert not relax.BlockBuilder._stack
