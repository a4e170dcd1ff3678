"""Which machine a target is, and how a third party adds one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm.target import Target

from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.machine.engine.floats import FloatEngine
from tvm_sparse.machine.engine.registry import ENGINES
from tvm_sparse.machine.lookup import plain_lookup
from tvm_sparse.machine.plain import PLAIN
from tvm_sparse.machine.record import Caches
from tvm_sparse.machine.registry import MACHINES, machine_of
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.selection.cpu.balanced import balanced_candidates

ARM = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"})


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        ("znver4", "AVX-512 VNNI VBMI BF16"),
        ("icelake-server", "AVX-512 VNNI VBMI"),
        ("cascadelake", "AVX-512 VNNI"),
        ("skylake-avx512", "AVX-512 BW"),
        ("alderlake", "AVX-VNNI"),
        ("haswell", "AVX2"),
        ("sandybridge", "AVX"),
        ("x86-64", "plain CPU"),
    ],
)
def test_x86(cpu, name):
    assert machine_of(host(cpu)).name == name


def test_arm():
    assert machine_of(ARM).name == "NEON"


def test_gpus_are_no_cpus():
    with pytest.raises(UnsupportedError, match="cuda"):
        machine_of(Target({"kind": "cuda", "arch": "sm_90"}))


@pytest.fixture
def looked_up():
    """Add a machine of a third party with lookups of its own in four columns; yield its calls."""
    calls = []

    def lookup(buffer, row, start, index):
        calls.append(start)
        return plain_lookup(4)(buffer, row, start, index)

    toy = replace(PLAIN, name="toy", sums=6, lookups=(("float32", 4, lookup),))
    MACHINES.add(toy.name, toy)
    ENGINES[FLOAT32, toy.name] = FloatEngine
    yield calls
    MACHINES.remove(toy.name)
    del ENGINES[FLOAT32, toy.name]


def test_a_toy_machine_from_outside(looked_up):
    contraction, rng = Contraction((5,), 32, 32), np.random.default_rng(0)
    matrix, x = keep_of_bank(rng, (32, 32), 4), integers(rng, contraction.input_shape)
    format = BalancedFormat.of(matrix, bank=4)
    func = balanced(contraction, format, host())
    assert looked_up, "the toy's own lookup is emitted"
    got = run(func, [x, *format.encode(matrix).values()], contraction.output_shape)
    assert (got == reference(contraction, x, matrix)).all()
    assert machine_of(host()).accumulators == 1, "and its tiles are as small as its registers"


def test_candidates_use_the_banks_of_a_toy_machine(looked_up):
    from tvm_sparse.patterns.scan import Scan

    matrix = keep_of_bank(np.random.default_rng(0), (32, 32), 4)
    (candidate,) = balanced_candidates(Contraction((64,), 32, 32), Scan(matrix), host())
    assert candidate.format.bank == 4


@pytest.mark.parametrize(("cpu", "kilobytes"), [("znver4", 32), ("znver5", 48), ("haswell", 32)])
def test_chips_may_have_caches_of_their_own(cpu, kilobytes):
    caches = machine_of(host(cpu)).caches
    assert caches.weights == kilobytes << 10
    assert caches.second == Caches().second
