"""The rule for register-tiled contractions: which loops are outermost, and that all are right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, integers, keep_of_bank, run
from tests.schedules.layers import MODULES, assert_like_torch, prune
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense
from tvm_sparse.schedules.cpu.contraction import ContractionRule
from tvm_sparse.schedules.cpu.overlap_tiles import OverlapTiles

wide = pytest.mark.isa("avx512f")
"""Register tiles of AVX-512."""


def outer_loops(func):
    """Return the extents of the loops around the register tile, one-step loops left out."""
    schedule = ContractionRule().apply(func, host(), tunable=False)
    loops = [schedule.get(x) for x in schedule.get_loops(schedule.get_sblock("store"))]
    return [int(x.extent) for x in loops if int(x.kind) in (0, 1) and int(x.extent) > 1]


@wide
@pytest.mark.parametrize(
    ("rows", "columns", "keep", "loops"),
    [
        # The second cache holds the activations: features outermost, row tiles inside.
        (64, 256, 1, [8, 16]),
        # It does not, and weights are few: row tiles outermost, all 8 feature tiles inside.
        (2048, 256, 1, [512, 8]),
        # Weights of 4 of 8 feature tiles fit the cache; the outer two loops run on all threads.
        (128, 4096, 1, [2 * 32, 4]),
        # A feature tile has 295 KB: features outermost on all threads, row tiles inside.
        (128, 4096, 4, [8, 32]),
    ],
)
def test_balanced_weights_stay_in_the_cache(rows, columns, keep, loops):
    format = BalancedFormat(512, columns, keep)
    assert outer_loops(balanced(Contraction((rows,), columns, 512), format, host())) == loops


@wide
@pytest.mark.parametrize(("features", "loops"), [(256, [4]), (1008, [21]), (48, [])])
def test_one_row_takes_few_streams_of_weights(features, loops):
    func = dense(Contraction((1,), 64, features), DenseFormat(features, 64), host())
    assert outer_loops(func) == loops


@wide
def test_dense_weights_of_few_columns_meet_each_row_tile():
    wide_layer = Contraction((4096,), 128, 512)
    assert outer_loops(dense(wide_layer, DenseFormat(512, 128), host())) == [1024, 8]


@wide
@pytest.mark.parametrize(("features", "columns"), [(768, 768), (3072, 768), (768, 3072)])
def test_rows_without_divisors_carry_no_conditions(features, columns):
    func = balanced(
        Contraction((1, 197), columns, features), BalancedFormat(features, columns, 1), host()
    )
    scheduled = ContractionRule().apply(func, host(), tunable=False).mod
    assert "T.where" in scheduled.script()
    assert "T.where" not in OverlapTiles()(scheduled).script()


@pytest.mark.parametrize(
    ("lead", "share"), [((288,), 1), ((300,), 2), ((9, 33), 1), ((1, 301), 1)], ids=str
)
def test_chunks_of_features_compute_the_same(lead, share):
    rng = np.random.default_rng(0)
    matrix = keep_of_bank(rng, (512, 1024), 2)
    matrix = integers(rng, matrix.shape) * (np.tile(matrix[:16], (32, 1)) != 0)
    contraction = Contraction(lead, 1024, 512)
    x = integers(rng, contraction.input_shape)
    format = BalancedFormat.of(matrix, share=share)
    func = balanced(contraction, format, host())
    got = run(func, [x, *format.encode(matrix).values()], contraction.output_shape)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.grid
@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues(build):
    model, x = build()
    prune(model, 1, 1, 0.6)
    library = assert_like_torch(model, x, "balanced")
    assert {d.chosen for d in library.decisions} == {"balanced"}


@pytest.mark.grid
@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues_of_dense_layers(build):
    assert_like_torch(*build(), "dense")
