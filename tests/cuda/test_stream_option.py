"""How streams are cut: activations that do not fit on chip, and nothing that need not be."""

from __future__ import annotations

import pytest

from tests.cuda.kernels import assert_lean, needs_nvrtc, scheduled
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.mends import Mends, using
from tvm_sparse.schedules.cuda.stream import StreamRule
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.stream_option import streamed

H200 = load("h200")
SHARED = 232448


def option(columns, rows, dtype="float32", features=4096):
    """The stream of a weight that keeps 3 of 32 columns."""
    c = Contraction((rows,), columns, features, numerics=Numerics.uniform(dtype))
    vector = 4 if dtype == "float32" else 8
    return streamed(c, LaneBanksFormat(features, columns, 3, 32, vector), H200, SHARED)


@pytest.mark.parametrize("rows", [5, 8])
def test_activations_that_do_not_fit_are_cut(rows):
    found = option(25088, rows)
    assert found.warps.parts > 1
    assert found.demand.shared <= SHARED
    # 802 KB of activations went to a tile, which an H200 took 937 us for.
    assert found.seconds < 60e-6


def test_what_fits_stays_whole_unless_parts_are_faster():
    assert option(1024, 8).warps.parts == 1
    assert option(8192, 1, "float16").warps.parts == 1


def test_parts_can_be_turned_off():
    with using(Mends(segments=False)):
        assert option(25088, 8) is None
        assert option(25088, 1).warps.parts == 1


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parts_do_not_spill(dtype):
    found = option(25088, 8, dtype)
    registers = 65536 // (32 * found.warps.count)
    assert_lean(scheduled(found.build(), StreamRule()), "sm_90", registers=registers)


def test_few_thread_blocks_stage_the_activations_of_several_rows():
    gates = option(1500, 8, "float16", 6000)
    assert gates.warps.rows > 2 and gates.demand.blocks <= H200.sms
    with using(Mends(wave_rows=False)):
        before = option(1500, 8, "float16", 6000)
    assert before.warps.rows == 2 and gates.seconds < before.seconds / 1.15


def test_a_single_row_keeps_what_gpus_have_timed():
    with using(Mends(wave_rows=False)):
        before = option(8192, 1, "float16", 8192).warps
    assert option(8192, 1, "float16", 8192).warps == before


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_warps_of_many_rows_do_not_spill(dtype):
    found = option(1500, 8, dtype, 6000)
    assert found.warps.rows > 2
    assert_lean(scheduled(found.build(), StreamRule()), "sm_90", registers=128)
