"""Names of targets."""

from __future__ import annotations

import pytest
from tvm.target import codegen

from tvm_sparse.base.targets import ResolvedTarget, parse_target, spelled
from tvm_sparse.errors import InputError
from tvm_sparse_runtime import host


def test_cpu_is_this_machine():
    resolved = parse_target("cpu")
    assert resolved.runs_here and resolved.target.attrs["mcpu"]
    again = parse_target(resolved.target)
    assert again.runs_here and again.target.same_as(resolved.target)


def test_another_cpu_is_not_this_machine():
    assert not parse_target("cpu:pentium4").runs_here


@pytest.mark.parametrize(
    "name, message",
    [("gpu", "'gpu' is unknown"), ("cpu:haswel", "did you mean"), ("", "'' is unknown")],
)
def test_unknown_names(name, message):
    with pytest.raises(InputError, match=message):
        parse_target(name)


@pytest.mark.parametrize("name", ["cpu:haswell", "cuda:sm_90", "cuda:sm_80,sm_90", "cuda:h100"])
def test_a_target_is_spelled_as_it_was_named(name):
    assert spelled(parse_target(name).target) == name


def test_functions_for_a_gpu_are_not_timed_one_by_one():
    assert parse_target("cpu").timed_here
    assert not parse_target("cpu:haswell").timed_here
    assert not ResolvedTarget(parse_target("cuda:sm_90").target, runs_here=True).timed_here


@pytest.mark.parametrize("flags", [{"amx_tile", "amx_int8"}, set()])
def test_this_machine_has_the_tile_registers_that_the_system_grants(monkeypatch, flags):
    """LLVM tells a CPU by its model; virtual machines leave AMX out."""
    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "sapphirerapids")
    monkeypatch.setattr(host, "cpu_features", lambda: frozenset(flags))
    features = set(map(str, codegen.llvm_get_cpu_features(parse_target("cpu").target)))
    assert ("amx-int8" in features) == bool(flags)
    assert "avx512bf16" in features
