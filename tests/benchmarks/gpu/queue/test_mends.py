import contextlib
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from benchmarks.gpu.queue import mends
from benchmarks.gpu.queue.step import Plan

SMALL = Plan(small=True)
MEND = mends.Mend("long", {"short": 1, "long": 2}, (mends.TINY,), switch="steps")


@dataclass(frozen=True)
class Mends:
    """The switches of a compiler that has one."""

    steps: int = 0


class Compiler:
    """A module with the switches; :attr:`now` are those in use."""

    Mends = Mends

    def __init__(self):
        self.now = Mends()

    def in_use(self):
        return self.now

    @contextlib.contextmanager
    def using(self, chosen):
        before, self.now = self.now, chosen
        yield
        self.now = before


@pytest.fixture
def compiler(monkeypatch):
    found = Compiler()
    monkeypatch.setitem(sys.modules, mends.SWITCHES, found)
    return found


def test_what_nobody_built_is_skipped(compiler, monkeypatch):
    for switch in ("", "no_such_field"):
        mend = mends.Mend("m", mends.ON_OFF, (mends.TINY,), switch=switch)
        (piece,) = mends.pieces([mend], "mend_times", SMALL)
        assert (piece.name, piece.skip) == ("m", mends.NOT_BUILT)
        assert not mends.kernels([mend], SMALL)
    assert MEND.missing == ""
    monkeypatch.setitem(sys.modules, mends.SWITCHES, None)  # nobody has any
    assert MEND.missing == mends.NOT_BUILT


def test_a_kernel_is_built_with_its_value_and_the_compiler_is_as_before(compiler):
    seen = {}
    for label, kernel in MEND.kernels(mends.TINY.case(16)).items():
        with kernel.chosen():
            seen[label] = compiler.in_use().steps
    assert seen == {"short": 1, "long": 2}
    assert compiler.in_use() == Mends()


def test_values_have_places_and_names_of_their_own(compiler):
    kernels = mends.kernels([MEND], SMALL)
    assert len({kernel.name for kernel in kernels}) == len(kernels) == 2
    assert len({kernel.place("cuda:sm_90") for kernel in kernels}) == 2


def test_values_are_timed_beside_each_other(compiler, monkeypatch):
    built = []

    def ours(layer, kernel, target):
        built.append(kernel.label)
        return (lambda: None), {"kernel": "tile"}, 0.5

    timer = SimpleNamespace(row=lambda programs: {"times": dict.fromkeys(programs)})
    monkeypatch.setattr(
        mends, "Layer", type("Layer", (), {"__init__": lambda self, case: None, "ours": ours})
    )
    monkeypatch.setattr(mends, "Timer", lambda repeats: timer)
    (piece,) = mends.pieces([MEND], "mend_times", SMALL)
    (row,) = piece.run()
    assert built == ["short", "long"]
    assert list(row["times"]) == ["ours short", "ours long"]
    assert (row["mend"], row["rows"]) == ("long", 16)


def test_every_mend_has_layers_and_several_values():
    assert len({mend.name for mend in mends.MENDS}) == len(mends.MENDS)
    for mend in mends.MENDS:
        assert len(mend.values) > 1
        names = [case.name for case in mend.cases(Plan())]
        assert len(set(names)) == len(names) > 1


def test_gains_are_told_over_the_first_value():
    times = {"ours off": {"median_us": 20.0}, "ours on": {"median_us": 10.0}}
    worse = {"ours off": {"median_us": 10.0}, "ours on": {"median_us": 12.5}}
    rows = [{"mend": "split-K", "times": times}, {"mend": "split-K", "times": worse}]
    assert mends.tells(rows) == "split-K 0.80 to 2.00x"
