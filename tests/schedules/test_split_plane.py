"""Threads share rows of a plane where activations are larger than weights, features elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.dense import DenseTapFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.cpu import cores
from tvm_sparse.schedules.rule import first_schedule


def pointwise(batch, height, columns, features):
    extents = ((1, 1), (1, 1), (1, 1), (height, 14))
    return Contraction((batch, height, 14), columns, features, *extents)


def three(batch, height, channels):
    extents = ((3, 3), (1, 1), (1, 1), (height + 2, 16))
    return Contraction((batch, height, 14), channels, 4 * channels, *extents)


def taps(batch, height, channels):
    extents = ((3, 3), (1, 1), (1, 1), (height + 2, 16))
    return Contraction((batch, height, 14), channels, channels, *extents, depthwise=True)


def operator(layer):
    if layer.depthwise:
        return depthwise(layer, host())
    format = BalancedFormat(*layer.matrix_shape, 2, segments=math.prod(layer.taps))
    return balanced(layer, format, host())


@pytest.mark.parametrize(
    ("layer", "tasks"),
    [
        (pointwise(1, 28, 64, 256), 2),
        (pointwise(3, 28, 64, 256), 6),
        (pointwise(1, 27, 64, 256), 2),  # 189 positions each
        (three(1, 27, 64), None),  # uneven parts
        (pointwise(1, 4, 1024, 1024), None),  # 590 KB of weights, 460 KB of activations
        (taps(1, 28, 256), 2),
        (taps(2, 28, 256), 4),
        (taps(1, 7, 960), 14),  # seven rows, each in two halves of its channels
        (taps(1, 7, 48), 7),  # three vectors have no halves
    ],
    ids=str,
)
def test_what_threads_share(layer, tasks, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    schedule, _rule = first_schedule(operator(layer), host(), rules_for(host()))
    loops = [schedule.get(x) for x in schedule.get_loops(schedule.get_sblock("store"))]
    (parallel,) = [int(x.extent) for x in loops if int(x.kind) == b.PARALLEL]
    assert int(loops[0].kind) == b.PARALLEL
    assert (parallel == tasks) if tasks else (parallel > 4)


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["2", "3"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("height", [6, 7, 11])
def test_shared_planes_compute_the_same(height, batch, threads, monkeypatch):
    """Seven rows are numbered, 49 for each of two threads: a partial tile cannot be unrolled."""
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    monkeypatch.setattr(cores, "PARALLEL_FLOPS", 0)
    rng = np.random.default_rng(0)
    for layer in (
        pointwise(batch, height, 32, 48),
        three(batch, height, 32),
        taps(batch, height, 48),
    ):
        matrix = integers(rng, layer.matrix_shape)
        format = DenseTapFormat(*layer.matrix_shape)
        if not layer.depthwise:
            matrix = keep_of_bank(rng, layer.matrix_shape, 2)
            format = BalancedFormat(*layer.matrix_shape, 2, segments=math.prod(layer.taps))
        x = integers(rng, layer.input_shape)
        got = run(operator(layer), [x, *format.encode(matrix).values()], layer.output_shape)
        assert (got == reference(layer, x, matrix)).all()
