import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.comparison import beside
from tvm_sparse.comparison.beside import TURNS, beside_source
from tvm_sparse.comparison.latency import Latency
from tvm_sparse.errors import InputError

CONFIG = ts.Config(measure=False, tuned=False, cache=False)


@pytest.fixture
def source(tmp_path):
    torch.manual_seed(0)
    model, x = nn.Linear(16, 8).eval(), torch.rand(2, 16)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    return str(tmp_path / "m.pt2"), ts.compile(model, (x,), config=CONFIG)


def timed(monkeypatch, ratios):
    """Have the turns take what gives ``ratios``."""
    left = iter(ratios)
    turn = lambda *_: {"ours": Latency(1, 1, 1), "source": Latency(next(left), 1, 1)}  # noqa: E731
    monkeypatch.setattr(beside, "race", turn)


def test_equal_turns_say_a_speed(source, monkeypatch):
    timed(monkeypatch, [2.0] * TURNS)
    found = beside_source(source[1], source[0])
    assert (found.over_source, found.least, found.most) == (2, 2, 2)
    assert str(found).endswith("2.00x the speed of the source")


def test_one_turn_that_was_disturbed_counts_little(source, monkeypatch):
    timed(monkeypatch, [975.0, *[2.0] * (TURNS - 1)])
    assert str(beside_source(source[1], source[0])).endswith(", 2.00x the speed of the source")


def test_turns_that_differ_say_that_the_machine_is_busy(source, monkeypatch):
    timed(monkeypatch, [1.0, 1.0, 2.0, 2.0, 2.0, 30.0, 500.0, 900.0, 975.0])
    text = str(beside_source(source[1], source[0]))
    assert text.endswith("1 to 9e+02 times the speed of the source: the machine is busy, try again")


def test_another_result_is_refused(source):
    other = ts.compile(nn.Linear(16, 8).eval(), (torch.rand(2, 16),), config=CONFIG)
    with pytest.raises(InputError, match="computes something else"):
        beside_source(other, source[0])
