"""Products of bytes with bytes that are packed when the network runs: exact on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.integers import TARGETS
from tests.kernels import host, run
from tvm_sparse.base.numerics import samples
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.contractions.byte_products import ByteProduct, Centre, shifts
from tvm_sparse.ops.contractions.pack_bytes import packed
from tvm_sparse.ops.marks import int64

BATCH = (2, 3)
EXTENTS = [(5, 7, 19), (17, 32, 48), (1, 3, 1)]
"""Rows, columns, features."""


def layouts(k, n):
    """Return views of the right operand, and what NumPy sees of the tensor behind each."""
    heads = ("reshape", (2, n, 3, k)), ("permute_dims", (0, 2, 3, 1))
    values = ("reshape", (2, k, 3, n)), ("permute_dims", (0, 2, 1, 3))
    return {
        "plain": (View((*BATCH, k, n)), lambda b: b),
        "keys": (View((2, n, 3 * k), heads), lambda b: b.reshape(2, n, 3, k).transpose(0, 2, 3, 1)),
        "values": (
            View((2, k, 3 * n), values),
            lambda b: b.reshape(2, k, 3, n).transpose(0, 2, 1, 3),
        ),
        "neither": (
            View((2, n, k, 3), (("permute_dims", (0, 3, 2, 1)),)),
            lambda b: b.transpose(0, 3, 2, 1),
        ),
    }


def product_of(product, a, base, view, target):
    """Return the sums that the two kernels give."""
    x = te.placeholder(int64(base.shape), str(base.dtype), "B")
    pack = te.create_prim_func([x, packed(x, view, product, target)])
    weights = run(pack, [base], product.packed_shape(target), target, "int8")
    shape = (*product.batch, product.rows, product.features)
    return run(product.function(target), [a, weights], shape, target, "int32")


@pytest.mark.grid
@pytest.mark.parametrize(
    ("types", "layout", "extents"),
    [
        *((("uint8", "uint8"), layout, EXTENTS) for layout in ("plain", "keys", "values")),
        (("uint8", "uint8"), "neither", EXTENTS[:1]),
        (("int8", "int8"), "values", EXTENTS[:1]),
        (("uint8", "int8"), "keys", [(2, 30, 33)]),
    ],
)
def test_exact_for_any_extent_layout_and_type(types, layout, extents):
    rng = np.random.default_rng(0)
    for rows, k, n in extents:
        view, seen = layouts(k, n)[layout]
        product = ByteProduct(BATCH, rows, k, n, types[0])
        a, base = samples(rng, (*BATCH, rows, k), types[0]), samples(rng, view.shape, types[1])
        left = a.astype(int) + (128 if types[0] == "int8" else 0)
        right = seen(base).astype(int) - (128 if types[1] == "uint8" else 0)
        got = product_of(product, a, base, view, host())
        np.testing.assert_array_equal(got, left @ right, err_msg=str((rows, k, n)))


@pytest.mark.grid
@pytest.mark.isa
@pytest.mark.parametrize("machine", TARGETS)
def test_exact_on_every_machine(machine):
    rng = np.random.default_rng(0)
    view, seen = layouts(30, 19)["keys"]
    product = ByteProduct(BATCH, 9, 30, 19, "uint8")
    a, base = samples(rng, (*BATCH, 9, 30), "uint8"), samples(rng, view.shape, "uint8")
    got = product_of(product, a, base, view, TARGETS[machine])
    np.testing.assert_array_equal(got, a.astype(int) @ (seen(base).astype(int) - 128))


@pytest.mark.parametrize(
    ("types", "zeros"),
    [
        (("uint8", "uint8"), (0, 128)),
        (("uint8", "uint8"), (37, 3)),
        (("int8", "int8"), (-128, 0)),
        (("int8", "int8"), (5, 127)),
        (("int8", "uint8"), (0, 255)),
    ],
)
@pytest.mark.parametrize("shifted", [True, False])
def test_the_centre_takes_zero_points_off(types, zeros, shifted):
    rng = np.random.default_rng(0)
    a, b = samples(rng, (4, 21), types[0]).astype(int), samples(rng, (21, 5), types[1]).astype(int)
    left, right = (Scale(t, 0.5, z) for t, z in zip(types, zeros, strict=True))
    by = shifts(left, right) if shifted else {"up": 0, "down": 0}
    sums = (a + by["up"]) @ (b - by["down"])
    assert not shifted or by == {
        "up": 128 * (types[0] == "int8"),
        "down": 128 * (types[1] == "uint8"),
    }
    centre = Centre.of(left, right, 21, **by)
    given = [a.sum(1)] if centre.of_rows else []
    given += [b.sum(0)] if centre.of_columns else []
    tensors = [te.placeholder(int64(t.shape), "int32") for t in (sums, *given)]
    func = te.create_prim_func([*tensors, centre.meant(tensors[0], 0.25, *tensors[1:])])
    got = run(func, [t.astype(np.int32) for t in (sums, *given)], sums.shape)
    np.testing.assert_array_equal(got, 0.25 * ((a - zeros[0]) @ (b - zeros[1])))
