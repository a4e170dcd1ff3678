"""2:4 weights on Hopper's sparse tensor cores: why a step waits, and when they are chosen."""

from __future__ import annotations

import dataclasses

import pytest

from tests.cuda.hopper import (
    modelled_over_by_hand,
    outcome,
)
from tests.cuda.kernels import needs_nvrtc, target
from tests.cuda.wgmma_kinds import KINDS, kept
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.swizzled_quads import STEP
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma_weights import TWO_FOUR
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import options


@needs_nvrtc
def test_words_that_the_next_step_overwrites_are_found(hopper):
    """Why a step waits for its products: one that is under way still reads its words."""
    kind, sizes = KINDS["two_four"], (64, 64, 3)
    c, matrix, kernel = kind.made(((64,), 1280, 64, sizes))
    assert outcome(hopper, c, matrix, kernel, str) == (True, ())
    early = dataclasses.replace(TWO_FOUR, name="too_early", pending=1)
    kernel = kind.operator(c, sizes, matrix, weights=early)
    _, findings = outcome(hopper, c, matrix, kernel, str)
    assert {found.kind for found in findings} == {"open register"}


@pytest.mark.parametrize(
    ("rows", "arch", "dtype", "kernel"),
    [
        (64, "sm_90a", "float16", "wgmma"),
        (1024, "sm_90a", "bfloat16", "wgmma"),
        (64, "sm_90", "float16", "2:4 tile"),
        (64, "sm_80", "float16", "2:4 tile"),
    ],
)
def test_hopper_alone_has_them(rows, arch, dtype, kernel):
    c = Contraction((rows,), 4096, 4096, numerics=Numerics.uniform(dtype))
    weight = kept(c.matrix_shape, 2, 4).astype("f4")
    (found,) = options.two_four(c, Scan(weight), target(arch))
    assert found.kernel == kernel


def test_no_time_by_hand_is_above_the_modelled_one():
    steps = lambda features, _: 8192 // features * (8192 // STEP)  # noqa: E731
    ratios = modelled_over_by_hand("2:4", steps, TWO_FOUR)
    assert len(ratios) == 3
    assert 1 <= min(ratios) and max(ratios) <= 1.3
