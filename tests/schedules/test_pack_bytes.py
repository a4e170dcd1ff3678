"""PackBytes: four vectors of bounded steps are stored as one, with the same bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx

from tests.kernels import host
from tvm_sparse.machine.pack import PARTS
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES, VECTOR_BYTES
from tvm_sparse.ops.bytes.byte_table import looked_up
from tvm_sparse.ops.bytes.quantize import SMALL, Scale, quantized
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.build import build_scheduled
from tvm_sparse.schedules.cpu.pack_bytes import PackBytes

packs = pytest.mark.skipif(machine_of(host()).pack is None, reason="no instruction packs bytes")


def fake_pack(steps, zero_point, dtype, small):
    """Say what would be packed."""
    assert not small
    lanes = tirx.Broadcast(tirx.Cast(dtype, zero_point), VECTOR_BYTES)
    return lanes if len(steps) == PARTS else None


def epilogue(columns=128, scale=Scale("uint8", 1.0, 3), *, bound=1e6, vectors=PARTS, index=None):
    """Return a vectorised function that makes bytes of ``a * b + c``, ``b`` one number a column."""
    shape = (5, columns)
    a, b = te.placeholder(shape, "int32", "A"), te.placeholder((columns,), "float32", "B")
    c = te.placeholder((5,), "float32", "C")

    def steps(i, j):
        return a[i, index(j) if index else j].astype("float32") * b[j] + c[i]

    made = quantized(te.compute(shape, steps, "steps"), scale, bound=bound)
    sch = s_tir.Schedule(te.create_prim_func([a, b, c, made]))
    sch.compute_inline(sch.get_sblock("steps"))
    _, column = sch.get_loops(sch.get_sblock("quantize"))
    whole = columns == vectors * LANES
    *_, part, lane = sch.split(column, [vectors, LANES] if whole else [None, vectors, LANES])
    sch.unroll(part)
    sch.vectorize(lane)
    return sch.mod


def widths(mod):
    """Return how many bytes are stored at a time."""
    stores = nodes(mod["main"].body, tirx.BufferStore)
    return [int(getattr(store.indices[-1], "lanes", 1)) for store in stores]


@pytest.mark.parametrize("scale", [Scale("uint8", 1.0, 3), Scale("int8", 1.0, -7)], ids=str)
@pytest.mark.parametrize("vectors", [PARTS, 2 * PARTS])
def test_four_vectors_are_stored_at_once(scale, vectors):
    assert widths(PackBytes(fake_pack)(epilogue(scale=scale, vectors=vectors))) == [VECTOR_BYTES]


@pytest.mark.parametrize(
    ("columns", "vectors", "stored"),
    [
        (112, 7, [VECTOR_BYTES, 3 * LANES]),
        (224, 7, [VECTOR_BYTES, 3 * LANES]),
        (96, 6, [VECTOR_BYTES, 2 * LANES]),
        (128, 2, [2 * LANES]),
    ],
)
def test_vectors_that_are_left_are_packed_too(columns, vectors, stored):
    assert widths(PackBytes(fake_pack)(epilogue(columns, vectors=vectors))) == stored


def in_rows(columns, rows, vectors):
    """Return :func:`epilogue` with a tile of several rows."""
    sch = s_tir.Schedule(epilogue(columns, vectors=vectors))
    row, *_, part, _lane = sch.get_loops(sch.get_sblock("quantize"))
    _, inner = sch.split(row, [None, rows])
    outer = sch.get_loops(sch.get_sblock("quantize"))[2:-2]
    sch.reorder(*outer, inner, part)
    sch.unroll(inner)
    return sch.mod


@pytest.mark.parametrize(
    ("columns", "vectors", "stored"),
    [(16, 1, 5 * [LANES]), (48, 3, [48, 16, 32, 32, 16, 48])],
)
def test_vectors_of_several_rows_are_packed_together(columns, vectors, stored):
    found = widths(PackBytes(fake_pack)(in_rows(columns, 5, vectors)))
    assert sum(found) == 5 * columns
    assert found[: len(stored)] == stored


@packs
def test_packed_bytes_and_those_that_are_left_are_the_same():
    rng = np.random.default_rng(0)
    a = rng.integers(-900, 900, (5, 112)).astype(np.int32)
    b, c = np.full(112, 0.25, np.float32), np.zeros(5, np.float32)
    module = build_scheduled(epilogue(112, vectors=7), host())
    out = tvm.runtime.tensor(np.full((5, 112), 77, np.uint8))
    module["main"](*(tvm.runtime.tensor(v) for v in (a, b, c)), out)
    expected = np.clip(np.rint(a * b) + 3, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize(
    "given",
    [
        {"bound": math.inf},
        {"vectors": 1},
        {"index": lambda j: (j + 1) % 128},
    ],
    ids=["unbounded", "single", "shifted"],
)
def test_others_stay_as_they_are(given):
    before = epilogue(**given)
    after = PackBytes(fake_pack)(before)
    tvm.ir.assert_structural_equal(before, after)


def test_bytes_that_are_no_neighbours_are_stored_apart():
    sch = s_tir.Schedule(epilogue())
    block = sch.get_sblock("quantize")
    sch.transform_layout(block, ("write", 0), lambda i, j: (i, j // 32, j % 32))
    assert widths(PackBytes(fake_pack)(sch.mod)) == [2 * LANES, 2 * LANES]
    sch.transform_layout(block, ("write", 0), lambda i, j, k: (i, j, k // 8, k % 8))
    before = sch.mod
    tvm.ir.assert_structural_equal(before, PackBytes(fake_pack)(before))


@packs
@pytest.mark.parametrize(("columns", "vectors"), [(16, 1), (48, 3), (64, 4), (176, 11)])
def test_bytes_of_rows_that_are_packed_together_are_the_same(columns, vectors):
    rng = np.random.default_rng(0)
    a = rng.integers(-900, 900, (5, columns)).astype(np.int32)
    b, c = rng.random(columns).astype(np.float32), rng.random(5).astype(np.float32)
    module = build_scheduled(in_rows(columns, 5, vectors), host())
    out = tvm.runtime.tensor(np.full((5, columns), 77, np.uint8))
    module["main"](*(tvm.runtime.tensor(v) for v in (a, b, c)), out)
    steps = a.astype(np.float32) * b + c[:, None]
    expected = np.clip(np.rint(steps) + 3, 0, 255)
    assert np.abs(out.numpy() - expected).max() <= 1  # a product and a sum may be rounded once
    assert (out.numpy() != expected).mean() < 0.01


def looking_up(columns, vectors, dtype, found):
    """Return :func:`epilogue` with a table of its bytes behind it."""
    shape = (5, columns)
    a, table = te.placeholder(shape, "float32", "A"), te.placeholder((256,), "uint8", "T")
    made = quantized(a, Scale(dtype, 1.0, 3), bound=1e6)
    sch = s_tir.Schedule(te.create_prim_func([a, table, looked_up(made, table, found)]))
    sch.compute_inline(sch.get_sblock("quantize"))
    _, column = sch.get_loops(sch.get_sblock("looked_up"))
    *_, part, lane = sch.split(column, [None, vectors, LANES])
    sch.unroll(part)
    sch.vectorize(lane)
    return sch.mod


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("found", ["uint8", "int8"])
@pytest.mark.parametrize(("columns", "vectors"), [(16, 1), (112, 7), (128, 4)])
def test_packed_bytes_are_looked_up(columns, vectors, dtype, found):
    rng = np.random.default_rng(0)
    table = rng.permutation(256).astype(np.uint8)
    a = rng.integers(-400, 400, (5, columns)).astype(np.float32)
    limits = np.iinfo(dtype)
    bytes_ = np.clip(a + 3, limits.min, limits.max).astype(dtype)
    module = build_scheduled(looking_up(columns, vectors, dtype, found), host())
    out = tvm.runtime.tensor(np.full((5, columns), 77, found))
    module["main"](*(tvm.runtime.tensor(v) for v in (a, table)), out)
    np.testing.assert_array_equal(out.numpy(), table[bytes_.view(np.uint8)].view(found))


def test_without_a_table_in_registers_bytes_are_looked_up_one_by_one():
    before = looking_up(128, 4, "uint8", "uint8")
    tvm.ir.assert_structural_equal(before, PackBytes(fake_pack)(before))


def test_machines_without_packs_change_nothing():
    before = epilogue()
    assert PackBytes(None)(before).same_as(before)


@packs
@pytest.mark.parametrize(
    ("dtype", "zero"),
    [("uint8", z) for z in (0, 3, 128, 255)] + [("int8", z) for z in (-128, -7, 0, 127)],
)
@pytest.mark.parametrize("bound", [2.0**30 - 1, SMALL - 1])
def test_packed_bytes_are_rounded_and_saturated(dtype, zero, bound):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    scale = Scale(dtype, 1.0, zero)
    rng = np.random.default_rng(0)
    a = rng.integers(-900, 900, (5, 128)).astype(np.int32)
    a[0, :4] = [2 * int(bound), -2 * int(bound), 0, 1]
    b, c = np.full(128, 0.5, np.float32), np.array([0, 1, -3, 0.25, 90], np.float32)
    expected = np.clip(np.rint(a * b + c[:, None]) + zero, low, high).astype(dtype)
    module = build_scheduled(epilogue(scale=scale, bound=bound), host())
    out = tvm.runtime.tensor(np.full((5, 128), 77, dtype))
    module["main"](*(tvm.runtime.tensor(v) for v in (a, b, c)), out)
    np.testing.assert_array_equal(out.numpy(), expected)
    code = module.mod.inspect_source("ll")
    assert f"pack{'us' if dtype == 'uint8' else 'ss'}wb" in code
    assert ("packssdw" in code) == (bound >= SMALL)
