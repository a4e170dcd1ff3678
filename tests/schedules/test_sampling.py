"""Tunable schedules: they begin as the default, and any of their decisions computes the same."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tvm

from tests.integers import as_integers, bytes_of
from tests.kernels import host, integers, keep_of_bank
from tvm_sparse.base.numerics import BFLOATS
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.winograd import WinogradFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.batch_matmul import View, batch_matmul
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.ops.contractions.winograd import winograd
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_context, rules_for
from tvm_sparse.schedules.cpu import cores
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.tuning.space import Point, space_of

LINEAR = Contraction((12,), 64, 48)
PARTIAL = Contraction((17,), 32, 32)
BYTES = as_integers(replace(LINEAR, columns=128), "int8", -3)
HALVES = replace(LINEAR, numerics=BFLOATS[0])
CONV = Contraction((1, 6, 8), 32, 48, (3, 3), (1, 1), (1, 1), (8, 10))
SEVEN = Contraction((1, 7, 8), 128, 128, (3, 3), (1, 1), (1, 1), (9, 10), depthwise=True)
"""Seven rows: two threads share them in halves of the channels."""

TAPS = as_integers(replace(CONV, columns=48, depthwise=True))


def candidate(kind, contraction, matrix):
    """Return the operator that the registered kind called ``kind`` offers for ``matrix``."""
    found = sparse_candidates(contraction, Scan(matrix), host())
    return next(c.func for c in found if not isinstance(c, str) and c.name.startswith(kind))


def blocks(shape):
    """Return a matrix of 16 x 4 blocks of which every row of blocks keeps a quarter."""
    rng = np.random.default_rng(0)
    kept = rng.random((shape[0] // 16, shape[1] // 4)).argsort(-1) < shape[1] // 16
    return integers(rng, shape) * kept.repeat(16, 0).repeat(4, 1)


def columns(shape):
    """Return a matrix of whose columns every 16 rows keep the same quarter."""
    kept = np.random.default_rng(0).random((shape[0] // 16, shape[1])).argsort(-1) < shape[1] // 4
    return integers(np.random.default_rng(0), shape) * kept.repeat(16, 0)


def scattered(shape):
    """Return a matrix with a fifth of its values, anywhere."""
    rng = np.random.default_rng(0)
    return integers(rng, shape) * (rng.random(shape) < 0.2)


def operator(kind, contraction, share=1):
    if kind == "dense":
        return dense(contraction, DenseFormat(*contraction.matrix_shape), host())
    if kind == "winograd":
        return winograd(
            contraction, WinogradFormat(contraction.features, contraction.columns), host()
        )
    if kind == "depthwise":
        return depthwise(replace(contraction, columns=contraction.features), host())
    if kind == "matmul":
        return batch_matmul(View((2, 12, 16)), View((2, 16, 40)), View((2, 12, 40)), host())
    if kind == "merged":
        merge = View((2, 12, 40), (("permute_dims", (1, 0, 2)), ("reshape", (12, 80))))
        return batch_matmul(View((2, 12, 16)), View((2, 16, 40)), merge, host())
    segments = int(np.prod(contraction.taps))
    format = BalancedFormat(*contraction.matrix_shape, 2, share=share, segments=segments)
    return balanced(contraction, format, host())


OPERATORS = {
    "dense linear": operator("dense", LINEAR),
    "dense partial": operator("dense", PARTIAL),
    "dense conv": operator("dense", CONV),
    "winograd conv": operator("winograd", CONV),
    "balanced linear": operator("balanced", LINEAR),
    "balanced partial": operator("balanced", PARTIAL),
    "balanced shared": operator("balanced", PARTIAL, 2),
    "depthwise": operator("depthwise", CONV),
    "depthwise halves": operator("depthwise", SEVEN),
    "matmul": operator("matmul", LINEAR),
    "matmul, merged": operator("merged", LINEAR),
    "block": candidate("block", LINEAR, blocks(LINEAR.matrix_shape)),
    "unstructured": candidate("unstructured", Contraction((64,), 64, 256), scattered((256, 64))),
    "dense bytes": dense(BYTES, dense_format(BYTES, host()), host()),
    "balanced bytes": candidate("balanced", BYTES, blocks(BYTES.matrix_shape).astype(np.int8)),
    "columns of bytes": candidate(
        "block", replace(BYTES, lead=(32,)), columns(BYTES.matrix_shape).astype(np.int8)
    ),
    "dense halves": dense(HALVES, dense_format(HALVES, host()), host()),
    "balanced halves": candidate("balanced", HALVES, blocks(HALVES.matrix_shape)),
    "depthwise bytes": dense_candidates(TAPS, host())[0].func,
    "rows first": operator("balanced", Contraction((64,), 256, 32)),
    "rows first, partial": operator("balanced", Contraction((197,), 1024, 256)),
}


def space(name):
    found = space_of(OPERATORS[name], host(), rules_for(host()))
    assert found is not None
    return found


def build(module):
    with build_context(host()):
        return tvm.compile(module, target=host()).mod


def instructions(module):
    """Return the machine code as text, without labels, directives and names of variables."""
    lines = (line.strip() for line in build(module).inspect_source("asm").splitlines())
    return [line for line in lines if line and line[0] not in ".#" and not line.endswith(":")]


def sample(variants, rng):
    """Return a schedule with random decisions: a trace without decisions samples anew."""
    variant = variants.variants[int(rng.integers(len(variants.variants)))]
    schedule = tvm.s_tir.Schedule(variants.module, seed=int(rng.integers(1, 2**30)))
    trace = tvm.s_tir.schedule.Trace(variant.trace.insts, {})
    trace.apply_to_schedule(schedule, remove_postproc=False)
    return schedule


@pytest.mark.grid
@pytest.mark.parametrize("name", OPERATORS)
def test_the_default_decisions_are_the_default_schedule(name):
    func = OPERATORS[name].with_attr("global_symbol", "main")
    default, _ = first_schedule(func, host(), rules_for(host()))
    found = space(name)
    assert found.schedule(found.default) is not None
    assert instructions(found.schedule(found.default).mod) == instructions(default.mod)


@pytest.mark.grid
@pytest.mark.parametrize("name", OPERATORS)
def test_sampled_decisions_replay(name):
    found, rng, seen = space(name), np.random.default_rng(0), set()
    for _ in range(8):
        schedule = sample(found, rng)
        point = found.point(schedule)
        again = found.schedule(point)
        assert again is not None
        tvm.ir.assert_structural_equal(again.mod, schedule.mod)
        seen.add(point)
    assert len(seen) > 3


@pytest.mark.grid
@pytest.mark.parametrize(
    "name", ["dense conv", "winograd conv", "balanced partial", "balanced shared"]
)
def test_sampled_decisions_compute_the_same(name):
    found, rng = space(name), np.random.default_rng(1)
    contraction = CONV if "conv" in name else PARTIAL
    matrix = keep_of_bank(rng, contraction.matrix_shape, 2)
    if "shared" in name:
        matrix = integers(rng, matrix.shape) * (np.tile(matrix[:16], (2, 1)) != 0)
    segments = int(np.prod(contraction.taps))
    if "conv" in name:
        ways = {c.name: c.format for c in dense_candidates(contraction, host())}
        format = ways[name.split()[0]]
    else:
        share = 2 if "shared" in name else 1
        format = BalancedFormat.of(matrix, share=share, segments=segments)
    x = integers(rng, contraction.input_shape)
    expected = reference(contraction, x, matrix)
    arrays = [tvm.runtime.tensor(a) for a in (x, *format.encode(matrix).values())]
    tried = 0
    while tried < 3:
        schedule = sample(found, rng)
        if not found.rule.feasible(schedule):
            continue
        out = tvm.runtime.tensor(np.full(expected.shape, np.nan, np.float32))
        build(schedule.mod)["main"](*arrays, out)
        assert (out.numpy() == expected).all()
        tried += 1


@pytest.mark.grid
@pytest.mark.parametrize(
    "name", ["block", "unstructured", "depthwise", "depthwise halves", "dense", "winograd"]
)
def test_sampled_decisions_compute_the_same_on_all_threads(name, monkeypatch):
    monkeypatch.setattr(cores, "PARALLEL_FLOPS", 0)
    monkeypatch.delenv("TVM_NUM_THREADS", raising=False)  # an artifact that was loaded set it
    rng = np.random.default_rng(2)
    contraction = Contraction((64,), 64, 256)
    if name == "depthwise":
        contraction = replace(CONV, columns=48, depthwise=True)
    if name == "depthwise halves":
        contraction = SEVEN
        monkeypatch.setenv("TVM_NUM_THREADS", "2")
    if name == "winograd":
        contraction = CONV
    whole = name.startswith("depthwise")
    fill = blocks if name == "block" else partial(integers, rng) if whole else scattered
    matrix = fill(contraction.matrix_shape)
    direct, *found = dense_candidates(contraction, host())
    found += [
        c for c in sparse_candidates(contraction, Scan(matrix), host()) if not isinstance(c, str)
    ]
    chosen = next((c for c in found if c.name == name), direct)
    choices = space_of(chosen.func, host(), rules_for(host()))
    x = integers(rng, contraction.input_shape)
    expected = reference(contraction, x, matrix)
    arrays = [tvm.runtime.tensor(a) for a in (x, *chosen.format.encode(matrix).values())]
    schedules = [s for _ in range(12) if choices.rule.feasible(s := sample(choices, rng))]
    assert schedules
    for schedule in schedules[: None if whole else 3]:
        assert "T.parallel" in schedule.mod.script()
        out = tvm.runtime.tensor(np.full(expected.shape, np.nan, np.float32))
        build(schedule.mod)["main"](*arrays, out)
        assert (out.numpy() == expected).all()


@pytest.mark.parametrize("threads", ["2", "3"])
@pytest.mark.parametrize("name", sorted(OPERATORS.keys() - {"winograd conv"}))
def test_no_decision_cuts_a_loop_past_its_end(name, threads, monkeypatch):
    """Parts that reach into each other would each write what another one computes.

    Winograd's last tile of rows may be a part of one: it is the one that has it.
    """
    monkeypatch.setattr(cores, "PARALLEL_FLOPS", 0)
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    found, rng = space(name), np.random.default_rng(4)
    default = found.schedule(found.default).mod.script().count("T.where")
    assert all(sample(found, rng).mod.script().count("T.where") <= default for _ in range(24))


@pytest.mark.grid
@pytest.mark.parametrize("name", ["dense", "balanced", "block", "joint", "columns"])
def test_sampled_decisions_of_integers_compute_the_same(name):
    rng = np.random.default_rng(3)
    c = replace(BYTES, lead=(96,)) if name == "columns" else BYTES
    matrix = (columns if name == "columns" else blocks)(c.matrix_shape).astype(np.int8)
    every = [*dense_candidates(c, host()), *sparse_candidates(c, Scan(matrix), host())]
    wanted = {"columns": "block"}.get(name, name)
    chosen = next(k for k in every if not isinstance(k, str) and k.name == wanted)
    choices = space_of(chosen.func, host(), rules_for(host()))
    x = bytes_of(rng, c)
    expected = reference(c, x, matrix)
    arrays = [tvm.runtime.tensor(a) for a in (x, *chosen.format.encode(matrix).values())]
    schedules = [s for _ in range(12) if choices.rule.feasible(s := sample(choices, rng))][:3]
    assert schedules
    for schedule in schedules:
        out = tvm.runtime.tensor(np.full(expected.shape, 77, np.int32))
        build(schedule.mod)["main"](*arrays, out)
        assert (out.numpy() == expected).all()


def test_register_tiles_that_spill_are_not_feasible():
    found = space("balanced linear")
    small, large = Point(0, (4, 3, 1, (1, 3), (1, 1))), Point(0, (12, 3, 1, (1, 1), (1, 1)))
    assert found.rule.feasible(found.schedule(small))
    assert not found.rule.feasible(found.schedule(large))
