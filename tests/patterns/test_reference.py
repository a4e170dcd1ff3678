"""The native scans give what their NumPy references give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.base.native import library
from tvm_sparse.patterns import reference

MASKS = {
    1: (0x7F, 0),
    2: (0x7FFF, 0x7C00),
    4: (0x7FFFFFFF, 0x7F800000),
    8: (2**63 - 1, 0x7FF << 52),
}


def planes(rows, cols):
    return (
        np.full((rows, -(-cols // 64)), 7, np.uint64),
        *(np.full(n, 7, np.int64) for n in (rows, rows, cols, cols)),
    )


def random_bits(rows, cols, density, seed):
    nonzero = np.random.default_rng(seed).random((rows, cols)) < density
    outputs = planes(rows, cols)
    assert reference.scan_plane(nonzero.view(np.uint8), 0xFF, 0, *outputs) == -1
    return nonzero, outputs[0]


sizes = st.tuples(st.integers(1, 9), st.one_of(st.integers(1, 70), st.integers(120, 200)))
densities = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])


@pytest.mark.parametrize("itemsize", MASKS)
@given(size=sizes, density=densities, seed=st.integers(0, 9))
def test_scan_plane(itemsize, size, density, seed):
    rng = np.random.default_rng(seed)
    magnitude, exponent = MASKS[itemsize]
    raw = rng.integers(0, 256, (*size, itemsize), np.uint8).view(f"u{itemsize}")[..., 0]
    raw = raw & raw.dtype.type(np.iinfo(raw.dtype).max & ~(exponent >> 1 & exponent))
    raw = np.where(rng.random(size) < density, raw, raw & raw.dtype.type(~np.uint64(magnitude)))
    raw = np.ascontiguousarray(raw.astype(f"u{itemsize}"))
    ours, theirs = planes(*size), planes(*size)
    assert library().scan_plane(raw, magnitude, exponent, *ours) == -1
    assert reference.scan_plane(raw, magnitude, exponent, *theirs) == -1
    for native, numpy in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(native, numpy)
    np.testing.assert_array_equal(
        reference.flags(ours[0], size[1]), (raw & raw.dtype.type(magnitude)) != 0
    )


def test_counts_of_more_rows_than_a_byte_holds():
    raw = np.ones((600, 3), np.uint32)
    ours = planes(600, 3)
    library().scan_plane(raw, *MASKS[4], *ours)
    np.testing.assert_array_equal(ours[3], [600] * 3)
    np.testing.assert_array_equal(ours[4], [0, 600, 600])


@pytest.mark.parametrize("scan", [lambda *a: library().scan_plane(*a), reference.scan_plane])
def test_scan_plane_finds_the_first_value_that_is_not_finite(scan):
    weight = np.ones((3, 70), np.float32)
    weight[1, 66], weight[2, 0] = -np.inf, np.nan
    assert scan(weight.view(np.uint32), *MASKS[4], *planes(3, 70)) == 70 + 66


@given(size=sizes, density=densities, bank=st.integers(1, 210), step=st.integers(1, 4))
def test_banks(size, density, bank, step):
    _, bits = random_bits(*size, density, bank)
    ours, theirs = (
        [np.full(bank + 1, 7, np.int64), np.full(bank + 1, 7, np.int64)] for _ in range(2)
    )
    library().bank_histogram(bits, size[1], bank, step, *ours)
    reference.bank_histogram(bits, size[1], bank, step, *theirs)
    np.testing.assert_array_equal(ours, theirs)
    for keep in range(0, bank, 3):
        first, expected = np.zeros(2, np.int64), np.zeros(2, np.int64)
        library().banks_beyond(bits, size[1], bank, keep, step, first)
        reference.banks_beyond(bits, size[1], bank, keep, step, expected)
        np.testing.assert_array_equal(first, expected)


@given(size=sizes, density=densities, step=st.integers(1, 4))
def test_sweep(size, density, step):
    _, bits = random_bits(*size, density, step)
    ours, theirs = (np.zeros((size[1] + 1, 5), np.int64) for _ in range(2))
    library().bank_sweep(bits, size[1], step, ours)
    reference.bank_sweep(bits, size[1], step, theirs)
    np.testing.assert_array_equal(ours, theirs)


@given(size=sizes, density=densities, block=st.tuples(st.integers(1, 12), st.integers(1, 210)))
def test_blocks(size, density, block):
    nonzero, bits = random_bits(*size, density, 1)
    shape = (-(-size[0] // block[0]), -(-size[1] // block[1]))
    ours, theirs = (np.full(shape, 7, np.int32) for _ in range(2))
    library().block_counts(bits, size[1], *block, ours)
    reference.block_counts(bits, size[1], *block, theirs)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.sum() == nonzero.sum()
    totals, expected = np.zeros(2, np.int64), np.zeros(2, np.int64)
    library().block_totals(bits, size[1], *block, totals)
    reference.block_totals(bits, size[1], *block, expected)
    np.testing.assert_array_equal(totals, expected)


@given(
    size=sizes,
    density=densities,
    block=st.tuples(st.integers(1, 12), st.integers(1, 70)),
    step=st.integers(1, 3),
    smallest=st.integers(1, 5),
)
def test_visible_moments(size, density, block, step, smallest):
    _, bits = random_bits(*size, density / 4, 1)
    ours, theirs = (np.full((30, 4), 7.0) for _ in range(2))
    banks = np.arange(smallest, smallest + 30)
    library().visible_moments(bits, size[1], *block, step, banks, ours)
    reference.visible_moments(bits, size[1], *block, step, banks, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_wrong_tensors_are_refused():
    bits = np.zeros((2, 1), np.uint64)
    hist = np.zeros(5, np.int64)
    with pytest.raises(ValueError, match="hist: Expected extent 4"):
        library().bank_histogram(bits, 8, 3, 1, hist, hist)
    with pytest.raises(ValueError, match="bank: Expected at least 1"):
        library().bank_histogram(bits, 8, 0, 1, hist, hist)
    with pytest.raises(TypeError, match="hist: Expected 64-bit"):
        library().bank_histogram(bits, 8, 4, 1, hist.astype(np.int32), hist)
    with pytest.raises(ValueError, match="bits: Expected extent 2 on axis 1"):
        library().bank_histogram(bits, 100, 4, 1, hist, hist)
    with pytest.raises(ValueError, match="bits: Expected 2 dimensions"):
        library().bank_histogram(bits[0], 8, 4, 1, hist, hist)
    with pytest.raises(ValueError, match="contiguous"):
        library().bank_histogram(np.zeros((2, 2), np.uint64)[:, :1], 8, 4, 1, hist, hist)
    with pytest.raises(ValueError, match="weight: Expected a matrix"):
        library().scan_plane(np.zeros(3, np.uint32), 1, 0, *planes(1, 3))
    with pytest.raises(ValueError, match="at most 8 banks"):
        library().bank_sweep(bits, 8, 1, np.zeros((10, 5), np.int64))
