"""``F.interpolate`` in every mode, at sizes, factors and corners that are easy to get wrong."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tvm_sparse as ts
from tests.edges import wrong
from tvm_sparse.errors import SparseError

NEAREST, LINEAR = ("nearest", "nearest-exact"), ("bilinear", "bicubic")
SIZES = ((3, 3), (4, 7), (1, 1), (9, 11), (18, 22), (20, 5))
"""PyTorch 2.13 repeats one row of a result of width 1 with ``antialias``: not compared."""

FACTORS = (2.0, 0.5, 1 / 3, 1.3, 0.77, (2.6, 0.4))


def _planes(mode: str, **options):
    return {
        f"{mode} {given} {options}": lambda x, given=given: F.interpolate(
            x, mode=mode, **given, **options
        )
        for given in (
            *({"size": size} for size in SIZES),
            *({"scale_factor": factor} for factor in FACTORS),
            {"scale_factor": 1.3, "recompute_scale_factor": True},
        )
    }


CASES = {
    **{mode: _planes(mode) for mode in (*NEAREST, *LINEAR, "area")},
    **{f"{mode} corners": _planes(mode, align_corners=True) for mode in LINEAR},
    **{f"{mode} antialias": _planes(mode, antialias=True) for mode in LINEAR},
}


def _others(shape: int, *cases):
    """Return uses of planes as lines (``shape`` 1) or as volumes (3)."""

    def use(x, mode, size, corners):
        x = x[:, :, 0] if shape == 1 else x[None]
        return F.interpolate(x, size, None, mode, corners)

    return {f"{case}": lambda x, case=case: use(x, *case) for case in cases}


LINES = _others(
    1,
    *(("linear", size, corners) for size in (3, 1, 25) for corners in (False, True)),
    *((mode, size, None) for mode in (*NEAREST, "area") for size in (3, 4, 25)),
)
VOLUMES = _others(
    3,
    *(
        ("trilinear", size, corners)
        for size in ((1, 4, 20), (5, 3, 1))
        for corners in (False, True)
    ),
    *((mode, size, None) for mode in (*NEAREST, "area") for size in ((2, 5, 20), (3, 1, 4))),
)


@pytest.mark.grid
@pytest.mark.parametrize("uses", CASES.values(), ids=CASES)
def test_planes(uses):
    assert wrong(uses, torch.randn(2, 3, 9, 11), rtol=1e-5, atol=1e-5) == {}


def test_lines_and_volumes():
    x = torch.randn(2, 3, 9, 11)
    assert wrong({**LINES, **VOLUMES}, x, rtol=1e-5, atol=1e-5) == {}


def test_a_size_of_one_that_grows():
    uses = {
        f"{mode} {corners}": lambda x, mode=mode, corners=corners: F.interpolate(
            x, (4, 3), mode=mode, align_corners=corners
        )
        for mode in LINEAR
        for corners in (False, True)
    }
    assert wrong(uses, torch.randn(2, 3, 1, 1), atol=1e-5) == {}


def test_behind_a_convolution_with_a_symbolic_batch():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.Upsample(scale_factor=2, mode="bilinear")
    ).eval()
    model.append(torch.nn.Conv2d(16, 4, 1))
    x = torch.randn(3, 3, 8, 9)
    batch = torch.export.Dim("batch", max=8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    library = ts.compile(program, config=ts.Config(measure=False))
    for count in (1, 3):
        with torch.no_grad():
            expected = model(x[:count])
        torch.testing.assert_close(library(x[:count]), expected, rtol=1e-4, atol=1e-5)


def test_open_planes_by_factors_that_no_float_holds_are_refused():
    x, height = torch.randn(1, 3, 8, 9), torch.export.Dim("height", min=4, max=32)
    model = torch.nn.Upsample(scale_factor=1.1, mode="bicubic")
    program = torch.export.export(model, (x,), dynamic_shapes=({2: height},))
    with pytest.raises(SparseError, match="interpolate"):
        ts.compile(program)


@pytest.mark.grid
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 7), (8, 19)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_infinite_pixel_counts_where_it_does_in_pytorch(mode, corners, row, column):
    """PyTorch multiplies the last pixel by zero, too, where corners are aligned."""
    x = torch.rand(1, 2, 9, 20)
    x[0, 0, row, column] = torch.inf

    def resized(x):
        return F.interpolate(x, (18, 39), mode=mode, align_corners=corners)

    assert wrong({mode: resized}, x) == {}
    assert resized(x).isfinite().float().mean() > 0.9


@pytest.mark.grid
@pytest.mark.parametrize("size", [5, 7, 13])
@pytest.mark.parametrize("corners", [False, True])
def test_an_infinite_last_plane(size, corners):
    x = torch.rand(1, 2, 4, 4, 4)
    x[..., -1] = torch.inf

    def resized(x):
        return F.interpolate(x, (size,) * 3, mode="trilinear", align_corners=corners)

    assert wrong({"trilinear": resized}, x) == {}
