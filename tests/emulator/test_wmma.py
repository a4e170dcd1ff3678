"""The matrices of ``nvcuda::wmma``: products of all types, shapes and layouts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.snippets import needs_nvrtc, run
from tvm_sparse_emulator import compile_ptx, execute
from tvm_sparse_emulator.errors import EmulatorError

SOURCE = """
#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void k(const {store}* a, const {store}* b, const {sum}* c, {sum}* d) {{
  fragment<matrix_a, {m}, {n}, {k}, {type}, {left}> x;
  fragment<matrix_b, {m}, {n}, {k}, {type}, {right}> y;
  fragment<accumulator, {m}, {n}, {k}, {sum}> z;
  load_matrix_sync(x, a, {lda});
  load_matrix_sync(y, b, {ldb});
  load_matrix_sync(z, c, {n} + {pad}, mem_row_major);
  mma_sync(z, x, y, z);
  for (int i = 0; i < z.num_elements; ++i) z.x[i] = z.x[i] * ({sum})2;
  store_matrix_sync(d, z, {n} + {pad}, mem_row_major);
}}
"""
TYPES = {
    "__half": ("__half", np.float16, "float", np.float32),
    "__half to half": ("__half", np.float16, "__half", np.float16),
    "__nv_bfloat16": ("__nv_bfloat16", ml_dtypes.bfloat16, "float", np.float32),
    "signed char": ("signed char", np.int8, "int", np.int32),
    "unsigned char": ("unsigned char", np.uint8, "int", np.int32),
    "precision::tf32": ("float", np.float32, "float", np.float32),
    "double": ("double", np.float64, "double", np.float64),
}
SHAPES = {"precision::tf32": [(16, 16, 8)], "double": [(8, 8, 4)]}
CASES = [
    (kind, shape)
    for kind in TYPES
    for shape in SHAPES.get(kind, [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
]
PAD = 16


def product(kind, shape, left="row_major", right="row_major", headers=""):
    """What the kernel leaves, and what is right: twice ``a @ b + c``."""
    m, n, k = shape
    store, dtype, sum_type, out = TYPES[kind]
    rng = np.random.default_rng(0)
    low = 0 if kind == "unsigned char" else -4

    def padded(rows, columns, type):
        return rng.integers(low, 5, (rows, columns + PAD)).astype(type)

    turned = [side == "col_major" for side in (left, right)]
    a = padded(*((k, m) if turned[0] else (m, k)), dtype)
    b = padded(*((n, k) if turned[1] else (k, n)), dtype)
    c, d = padded(m, n, out), np.zeros((m, n + PAD), out)
    text = headers + SOURCE.format(
        **{"m": m, "n": n, "k": k, "type": kind.split(" to ")[0], "store": store, "sum": sum_type},
        **{"left": left, "right": right, "lda": a.shape[1], "ldb": b.shape[1], "pad": PAD},
    )
    ptx = compile_ptx(text, "compute_80")
    raw = [x.view("u2") if x.dtype == ml_dtypes.bfloat16 else x for x in (a, b)]
    report = execute(ptx, "k", (1, 1, 1), (32, 1, 1), [*raw, c, d])
    assert not report.findings
    assert report.launches[0].multiply_adds == m * n * k
    wide = [x[:, :-PAD].astype("f8") for x in (a, b, c)]
    for place, side in enumerate(turned):
        wide[place] = wide[place].T if side else wide[place]
    assert not d[:, n:].any()
    return d[:, :n].astype("f8"), 2 * (wide[0] @ wide[1] + wide[2])


@needs_nvrtc
@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_products_are_exact_on_small_integers(kind, shape):
    np.testing.assert_array_equal(*product(kind, shape, headers="#include <cuda_bf16.h>\n"))


@needs_nvrtc
@pytest.mark.parametrize("left", ["row_major", "col_major"])
@pytest.mark.parametrize("right", ["row_major", "col_major"])
def test_layouts(left, right):
    np.testing.assert_array_equal(*product("__half", (32, 8, 16), left, right))


LOAD = "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {{{}}}, [%d0], 16;"
EIGHT = ", ".join(f"%f{i}" for i in range(8))


def test_all_lanes_must_be_there():
    report = run(f"setp.lt.u32 %p1, %r0, 8; @%p1 {LOAD.format(EIGHT)}", [np.zeros(256, "f4")])
    assert {one.kind for one in report.findings} == {"warp divergence"}


def test_a_matrix_must_lie_inside():
    report = run(LOAD.format(EIGHT), [np.zeros(255, "f4")])
    assert [(one.kind, one.times) for one in report.findings] == [("out of bounds", 1)]


@pytest.mark.parametrize(
    "unknown",
    [
        LOAD.format("%f0, %f1, %f2"),
        LOAD.format(EIGHT).replace("m16n16k16", "m8n8k32"),
        f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.s8.s8.f32 {{{EIGHT}}}, {{%r1, %r2}},"
        f" {{%r3, %r4}}, {{{EIGHT}}};",
    ],
)
def test_what_the_isa_has_not_is_named(unknown):
    with pytest.raises(EmulatorError, match=r"wmma.*is not one that the executor knows"):
        run(unknown, [np.zeros(256, "f4")])
