"""In-register lookups against NumPy's indexing, for each instruction set that has its own."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tests.kernels import host, run
from tvm_sparse.machine.lookup import plain_lookup
from tvm_sparse.machine.registry import machine_of


def lookup_for(target, bank=16, dtype="float32"):
    return machine_of(target).lookup(dtype, bank)


def lookups(lookup) -> tirx.PrimFunc:
    lanes = tirx.Ramp(0, 1, 16)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        x = T.arg("X", T.Buffer([3, 88], "float32"))
        index = T.arg("I", T.Buffer([16], "int32"))
        y = T.arg("Y", T.Buffer([3, 16], "float32"))
        with T.sblock("root"), T.sblock("look"):
            for row in range(3):
                at = tirx.const(row, "int64")
                found = lookup(x, (at,), tirx.const(8 * row, "int64"), index[lanes])
                T.buffer_store(y, found, [row, lanes])
    return builder.get()


@pytest.mark.parametrize("cpu", ["", "haswell", "x86-64"])
@pytest.mark.parametrize("bank", [16, 32, 64])
@pytest.mark.parametrize("high", [0, 64, -(2**31)])
def test_only_the_low_bits_count(cpu, bank, high):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 88), dtype=np.float32)
    index = rng.permutation(bank)[:16]
    target = host(cpu)
    words = (index + high).astype(np.int32)
    got = run(lookups(lookup_for(target, bank)), [x, words], (3, 16), target)
    expected = np.stack([x[row, 8 * row + index] for row in range(3)])
    assert (got == expected).all()


def test_the_fifth_bit_does_not_count_in_a_bank_of_16():
    x = np.random.default_rng(0).standard_normal((3, 88), dtype=np.float32)
    index = np.arange(16, dtype=np.int32)
    low, high = (run(lookups(lookup_for(host())), [x, i], (3, 16)) for i in (index, index + 16))
    assert (low == high).all()


def test_each_instruction_set_has_its_own():
    found = [lookup_for(host(cpu)) for cpu in ("skylake-avx512", "haswell", "x86-64")]
    assert len(set(found)) == 3
    assert found[2] is plain_lookup(16)
    assert lookup_for(host("skylake-avx512"), 32) is not plain_lookup(32)
    assert lookup_for(host("haswell"), 32) is plain_lookup(32)


def test_what_holds_other_types_is_looked_up_in_memory():
    assert lookup_for(host("skylake-avx512"), dtype="int8") is plain_lookup(16)


def test_only_avx512_looks_up_in_several_registers():
    banks = [
        machine_of(host(cpu)).banks("float32") for cpu in ("skylake-avx512", "haswell", "x86-64")
    ]
    assert banks == [(16, 32, 64), (16,), (16,)]


def test_lookups_cost_more_where_they_take_more_instructions():
    machines = [machine_of(host(cpu)) for cpu in ("skylake-avx512", "haswell", "x86-64")]
    costs = [machine.costs.of_lookup(16) for machine in machines]
    assert costs == sorted(costs)
    assert costs[0] < 1 < costs[1]


def test_a_lookup_in_two_registers_costs_more_than_one_and_less_than_two():
    costs = machine_of(host("skylake-avx512")).costs
    one = costs.of_lookup(16)
    assert one < costs.of_lookup(32) < 1 + 2 * one
