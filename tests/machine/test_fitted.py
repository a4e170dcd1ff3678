"""Which costs count: those fitted on this machine, then the chip's, then the instruction set's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import host
from tvm_sparse.base.config import Config
from tvm_sparse.base.targets import parse_target
from tvm_sparse.machine import fitted
from tvm_sparse.machine.fitted import costs_of, fitted_costs, keep
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions

HERE = parse_target("cpu").target


@pytest.fixture(autouse=True)
def _own_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(fitted, "cache_directory", lambda: tmp_path)


@pytest.mark.parametrize(
    ("cpu", "source", "lookup"),
    [
        ("znver4", "shipped for Zen 4", 0.45),
        ("znver5", "shipped for Zen 5", 0.8),
        ("haswell", "shipped for AVX2", 2.4),
        ("x86-64", "shipped for plain CPUs", 6.7),
    ],
)
def test_shipped_costs(cpu, source, lookup, monkeypatch):
    monkeypatch.setattr(fitted, "machine_of", machine_of)  # with its chips
    with fitted_costs(allowed=False):
        costs = costs_of(host(cpu))
    assert (costs.source, costs.of_lookup(16)) == (source, lookup)


def test_fitted_costs_are_used_here_and_where_they_are_wanted(tmp_path):
    own = replace(costs_of(HERE), source="fitted here", rows=2.0)
    assert keep(HERE, own).parent == tmp_path
    assert costs_of(HERE) == own
    with fitted_costs(allowed=False):
        assert costs_of(HERE).source.startswith("shipped")
    other = "haswell" if machine_of(HERE).name.startswith("AVX-512") else "znver5"
    assert costs_of(host(other)).source.startswith("shipped")


def test_the_last_ones_count(tmp_path):
    costs = costs_of(HERE)
    keep(HERE, replace(costs, source="first"))
    keep(HERE, replace(costs, source="second"))
    assert costs_of(HERE).source == "second"


@pytest.mark.parametrize("line", ["", "{", "[]", '{"key": "x", "costs": 3}', "\x00"])
def test_lines_that_are_no_records_are_skipped(line, tmp_path):
    path = keep(HERE, replace(costs_of(HERE), source="whole"))
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert costs_of(HERE).source == "whole"


@pytest.mark.parametrize(("cache", "source"), [(True, "fitted here"), (False, "shipped")])
def test_decisions_name_the_costs(cache, source):
    keep(HERE, replace(costs_of(HERE), source="fitted here"))
    decisions = Decisions()
    Chooser(HERE, Config(measure=False, cache=cache), decisions)
    assert decisions.costs.startswith(source)


DAMAGED = [
    "[" * 100_000,
    "{}",
    "[]",
    "1",
    "\x00",
    '{"key": 1, "costs": {"source": "", "entry": 1e999}}',
]


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_lines_that_are_no_costs_are_skipped(line, tmp_path):
    keep(HERE, replace(costs_of(HERE), source="fitted"))
    (tmp_path / fitted.FILE).write_text(f"{line}\n{(tmp_path / fitted.FILE).read_text()}{line}\n")
    assert costs_of(HERE).source == "fitted"
