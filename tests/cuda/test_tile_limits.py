"""Random decisions about tiled contractions: they fit, compile, and compute the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gpu.operators import OPERATORS, option_of
from tests.cuda.kernels import (
    block_threads,
    compiled,
    dynamic_shared,
    needs_nvrtc,
    samples,
    scheduled,
    source,
    space,
    target,
)
from tests.cuda.test_tile import CASES, RULES, emulated, masked, weights
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.multiply import Scalar, TensorCore
from tvm_sparse.ops.cuda.tile import ThreadBlockTile, tiled
from tvm_sparse.schedules.cuda import tile_limits
from tvm_sparse.schedules.cuda.threads import REGISTERS
from tvm_sparse.schedules.cuda.tile_scalar import TileScalarRule
from tvm_sparse.schedules.cuda.tile_tensor_core import TileTensorCoreRule


def layer(name, dtype, arch):
    operator = OPERATORS[name]
    rule = TileScalarRule() if dtype == "float32" else TileTensorCoreRule()
    return option_of(operator, dtype, target(arch)).build(), rule


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "dtype", "arch"),
    [
        ("dense", "float32", "sm_80"),
        ("joint", "float32", "sm_90"),
        ("block convolution", "float16", "sm_80"),
        ("balanced", "float16", "sm_90"),
    ],
)
def test_candidates_compile_within_the_limits(name, dtype, arch):
    func, rule = layer(name, dtype, arch)
    found = space(func, rule, arch)
    most = int(target(arch).attrs["max_shared_memory_per_block"])
    for schedule in samples(found, 1):
        main = schedule.mod["main"]
        threads = block_threads(main)
        assert threads <= 1024
        assert dynamic_shared(main, arch) <= most
        for used in compiled(main, arch).values():
            assert used.registers * threads <= REGISTERS


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["dense", "balanced", "block convolution", "joint"])
def test_a_space_begins_with_the_default(name, dtype):
    func, rule = layer(name, dtype, "sm_90")
    default = source(scheduled(func, rule))
    found = space(func, rule)
    assert source(found.variants[0].mod["main"]) == default
    assert source(found.schedule(found.default).mod["main"]) == default
    assert rule.feasible(found.variants[0])


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", ["dense", "balanced", "joint"])
def test_shared_memory_is_bounded(kind, dtype):
    """The estimate is never below what the compiler takes, and not far above."""
    c, tile = (
        Contraction((128,), 512, 256, numerics=Numerics.uniform(dtype)),
        ThreadBlockTile(64, 64, 32),
    )
    right = weights(kind, c, tile, masked(np.random.default_rng(0), kind, c, tile))
    engine = Scalar() if dtype == "float32" else TensorCore()
    rule = RULES[type(engine)]()
    for schedule in samples(space(tiled(c, right, tile, engine), rule), 4):
        bound = tile_limits.shared(schedule, rule.tile(schedule))
        assert bound / 2 <= dynamic_shared(schedule.mod["main"]) <= bound


def test_what_does_not_fit_is_not_feasible():
    c, tile = Contraction((1024,), 512, 256), ThreadBlockTile(64, 128, 32)
    func = tiled(c, weights("dense", c, tile, None), tile, Scalar())
    found = space(func, TileScalarRule())
    rows, across, steps, deep = found.default.values

    def allowed(*values):
        return found.rule.feasible(found.schedule(replace(found.default, values=values)))

    assert allowed(rows, across, steps, deep)
    assert not allowed((1, 1024, 1), across, steps, deep), "too many threads"
    assert not allowed((4, 1, 256), across, steps, deep), "too many sums"
    assert not allowed(rows, across, (1, 128), deep), "too much shared memory, or too long"


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(
    ("kind", "engine"),
    [("dense", Scalar), ("balanced", Scalar), ("block", TensorCore), ("joint", TensorCore)],
)
def test_candidates_equal_the_reference(kind, engine, emulator):
    func, right_of = emulated(emulator, kind, engine, *CASES["strided"])
    found = space(func, RULES[engine]())
    for schedule in samples(found, 1):
        assert right_of(schedule.mod["main"]), found.point(schedule)
