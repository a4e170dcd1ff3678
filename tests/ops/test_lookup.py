"""In-register lookups against NumPy's indexing, for each instruction set that has its own."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tests.kernels import host, run
from tvm_sparse.ops.lookup import (
    avx2_lookup,
    avx512_lookup,
    avx512_wide_lookup,
    lookup_banks,
    lookup_cost,
    lookup_for,
    plain_lookup,
)


def lookups(lookup) -> tirx.PrimFunc:
    lanes = tirx.Ramp(0, 1, 16)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        x = T.arg("X", T.Buffer([3, 56], "float32"))
        index = T.arg("I", T.Buffer([16], "int32"))
        y = T.arg("Y", T.Buffer([3, 16], "float32"))
        with T.sblock("root"), T.sblock("look"):
            for row in range(3):
                at = tirx.const(row, "int64")
                found = lookup(x, (at,), tirx.const(8 * row, "int64"), index[lanes])
                T.buffer_store(y, found, [row, lanes])
    return builder.get()


@pytest.mark.parametrize("cpu", ["", "haswell", "x86-64"])
@pytest.mark.parametrize("bank", [16, 32])
@pytest.mark.parametrize("high", [0, 32, -(2**31)])
def test_only_the_low_bits_count(cpu, bank, high):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 56), dtype=np.float32)
    index = rng.permutation(bank)[:16]
    target = host(cpu)
    words = (index + high).astype(np.int32)
    got = run(lookups(lookup_for(target, bank)), [x, words], (3, 16), target)
    expected = np.stack([x[row, 8 * row + index] for row in range(3)])
    assert (got == expected).all()


def test_the_fifth_bit_does_not_count_in_a_bank_of_16():
    x = np.random.default_rng(0).standard_normal((3, 56), dtype=np.float32)
    index = np.arange(16, dtype=np.int32)
    low, high = (run(lookups(lookup_for(host())), [x, i], (3, 16)) for i in (index, index + 16))
    assert (low == high).all()


def test_each_instruction_set_has_its_own():
    assert lookup_for(host("skylake-avx512")) is avx512_lookup
    assert lookup_for(host("skylake-avx512"), 32) is avx512_wide_lookup
    assert lookup_for(host("haswell")) is avx2_lookup
    assert lookup_for(host("x86-64")) is plain_lookup


def test_only_avx512_looks_up_in_two_registers():
    assert lookup_banks(host("skylake-avx512")) == (16, 32)
    assert lookup_banks(host("haswell")) == lookup_banks(host("x86-64")) == (16,)


def test_lookups_cost_more_where_they_take_more_instructions():
    costs = [lookup_cost(host(cpu)) for cpu in ("skylake-avx512", "haswell", "x86-64")]
    assert costs == sorted(costs)
    assert costs[0] < 1 < costs[1]


def test_a_lookup_in_two_registers_costs_more_than_one_and_less_than_two():
    target = host("skylake-avx512")
    one = lookup_cost(target, 16)
    assert one < lookup_cost(target, 32) < 1 + 2 * one
