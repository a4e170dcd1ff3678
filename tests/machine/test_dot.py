"""Dot products of bytes: none saturates, and the instructions are those of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integers import TARGETS, as_integers
from tests.kernels import host, run
from tests.machines import changed_machine
from tvm_sparse.machine.registry import MACHINES
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.narrow import stored

pytestmark = pytest.mark.isa
LAYER = as_integers(Contraction((3,), 64, 32))


def assert_extremes(target):
    inner = dense_format(LAYER, target)
    for activation in (0, 255):
        for weight in (-128, 127):
            x = np.full(LAYER.input_shape, activation, np.uint8)
            matrix = np.full(LAYER.matrix_shape, weight, np.int8)
            arrays = stored(inner, LAYER, target).encode(matrix)
            func = dense(LAYER, inner, target)
            got = run(func, [x, *arrays.values()], LAYER.output_shape, target, "int32")
            np.testing.assert_array_equal(got, reference(LAYER, x, matrix))


@pytest.mark.grid
@pytest.mark.parametrize("machine", TARGETS)
def test_the_largest_products_do_not_saturate(machine):
    assert_extremes(TARGETS[machine])


@pytest.mark.isa("avx512vnni")
def test_halves_of_256_bits_add_up():
    record = next(m for m in MACHINES if m.name == "AVX-VNNI")
    with changed_machine(dots=record.dots):
        assert_extremes(host())


@pytest.mark.parametrize(
    ("cpu", "instruction", "register"),
    [
        ("icelake-server", "vpdpbusd", "zmm"),
        ("cascadelake", "vpdpbusd", "zmm"),
        ("alderlake", "vpdpbusd", "ymm"),
        ("skylake-avx512", "vpmaddwd", "zmm"),
        ("haswell", "vpmaddwd", "ymm"),
    ],
)
def test_instructions(cpu, instruction, register):
    target = host(cpu)
    code = build_function(dense(LAYER, dense_format(LAYER, target), target), target)
    text = code.inspect_source("asm")
    assert any(instruction in line and register in line for line in text.splitlines())
    assert "vpmaddubsw" not in text
