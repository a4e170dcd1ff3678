"""Rows of times become demands."""

import pytest

from benchmarks.gpu.timed import (
    contraction_of,
    demand_of,
    format_of,
    measured_on,
    timed,
)
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.kept_tiles import KeptTilesFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.cuda.mends import OFF, Mends
from tvm_sparse.selection.cuda.chip import load

H200 = load("h200")
BANKS = TileBanksFormat(rows=64, cols=512, keep=8, bank=32, lanes=64, step=64)
ROW = {"case": "64x512, float16, N=16, balanced 75%", "rows": 16}


@pytest.mark.parametrize(
    "format",
    [
        BANKS,
        KeptTilesFormat(cols=1024, banks=BANKS),
        BlockFormat(64, 512, 32, 32, Buckets((Bucket(2, 5),))),
    ],
)
def test_a_format_is_read_from_what_it_prints(format):
    assert format_of(repr(format)) == format


def test_a_format_of_another_sort_is_not_made():
    with pytest.raises(KeyError):
        format_of("Path('x')")


def test_kernels_are_modelled_as_they_were_built():
    record = {"kernel": "tile", "format": repr(BANKS), "tile": [16, 64, 64]}
    before = demand_of(ROW, record, H200)
    after = demand_of(ROW, {**record, "mends": vars(Mends())}, H200)
    assert demand_of(ROW, {**record, "mends": vars(OFF)}, H200) == before
    assert demand_of(ROW, {**record, "mends": {"parts": 1}}, H200) == before
    assert before.chain == 8 * after.chain  # each value waited for the one before it
    assert before.passes > after.passes
    assert (before.steps, before.blocks, before.products) == (8, 1, 16 * 64 * 64)


def test_layers_have_the_rows_and_the_type_of_their_case():
    c = contraction_of(ROW, BANKS)
    assert (c.lead, c.matrix_shape, c.dtype) == ((16,), (64, 512), "float16")


def test_times_that_hold_the_hosts_and_those_of_bytes_are_left_out(monkeypatch):
    record = {"kernel": "tile", "format": repr(BANKS), "tile": [16, 64, 64]}
    times = {"ours balanced": {"median_us": 5.0}, "cublas": {"median_us": 4.0}}
    row = {**ROW, "kernels": {"balanced": record}, "times": times}
    row["environment"] = {"gpu": "NVIDIA H200"}
    others = {
        "late": {**row, "contaminated": {"ours balanced": "why"}},
        "elsewhere": {**row, "environment": {"gpu": "NVIDIA A10"}},
        "without a tile": {**row, "kernels": {"balanced": {**record, "tile": None}}},
        "clean": {**row, "flush": "clean"},
        "of bytes": {**row, "kernels": {"balanced": {**record, "kernel": "byte tile"}}},
    }
    rows = {"rows": [row, *others.values()]}
    monkeypatch.setattr("benchmarks.gpu.timed.load", lambda name: rows)
    assert [one.written for one in timed(H200, ("grid",))] == [True, False]


@pytest.mark.parametrize(
    ("chip", "gpu", "same"),
    [
        ("a10", "NVIDIA A10", True),
        ("a10", "NVIDIA A100-SXM4-80GB", False),
        ("h100", "NVIDIA H100 80GB HBM3", True),
        ("l4", "NVIDIA L40S", False),
        ("rtx4090", "NVIDIA GeForce RTX 4090", True),
    ],
)
def test_a_gpu_is_known_by_what_its_driver_calls_it(chip, gpu, same):
    assert measured_on(load(chip), gpu) == same
