"""A kernel of one product of a warpgroup, its matrices in the layouts of the PTX ISA."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

DTYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype("f4")}
ROWS, THREADS, TILE = 64, 128, 16384
WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}
"""Mode of a descriptor -> bytes of its pattern."""


@dataclass(frozen=True)
class Layout:
    """How a matrix lies in shared memory: which dimension is contiguous, in which pattern."""

    mode: int = 1
    turned: bool = False


@dataclass(frozen=True)
class Product:
    """``d[64, n] = a[64, k] * b[n, k]^T + d``."""

    features: int = 16
    dtype: str = "f16"
    left: Layout | None = Layout()
    right: Layout = Layout()
    signs: tuple[int, int] = (1, 1)
    sparse: bool = False
    selector: int = 0
    adds: bool = True

    @property
    def stored(self) -> int:
        """Columns of the left matrix as they lie."""
        return 32 // DTYPES[self.dtype].itemsize

    @property
    def columns(self) -> int:
        return self.stored * (2 if self.sparse else 1)


def image(matrix: np.ndarray, layout: Layout) -> tuple[np.ndarray, int]:
    """Return shared memory that holds a matrix, and the descriptor without its address.

    Groups of 8 lines of 16 bytes (or of a pattern's width) lie one after the other; first those
    along lines, then those across.
    """
    lines = matrix.T if layout.turned else matrix  # a line's elements are contiguous
    width, size = WIDTHS[layout.mode], matrix.itemsize
    across, along = lines.shape
    wide = -(-along * size // width)  # groups along a line
    out = np.zeros(TILE, "u1")
    for i in range(across):
        for j in range(along):
            group = (i // 8) * wide + j * size // width
            at = group * 8 * width + i % 8 * width + j * size % width
            at ^= (at >> 7 & (width // 16 - 1)) << 4
            out[at : at + size] = lines[i : i + 1, j].view("u1")
    near, far = 8 * width, 8 * width * wide
    swapped = layout.turned and layout.mode == 0
    leading, stride = (far, near) if swapped else (near, far)
    return out, (leading >> 4) << 16 | (stride >> 4) << 32 | layout.mode << 62


def text(product: Product, left: int, right: int) -> str:
    """Return a module: two tiles are copied, multiplied, and lanes' sums stored.

    Parameters are the two tiles, words of each thread (4 of the left matrix, 1 of metadata), and
    the sums ``[128, n / 2]`` before and after. ``left`` and ``right`` are descriptors.
    """
    count = product.features // 2
    sums = ", ".join(f"%s{i}" for i in range(count))
    kind = f"m64n{product.features}k{product.columns}.f32.{product.dtype}.{product.dtype}"
    a = "%ad" if product.left else "{%w0, %w1, %w2, %w3}"
    name = f"wgmma.mma_async{'.sp' if product.sparse else ''}.sync.aligned.{kind}"
    flags = ["%w4", str(product.selector)] if product.sparse else []
    flags += [str(int(product.adds)), *map(str, product.signs)]
    if product.dtype != "tf32":
        flags += [str(int(product.left.turned))] if product.left else []
        flags += [str(int(product.right.turned))]
    loads = "\n".join(f"ld.global.f32 %s{i}, [%d3+{4 * i}];" for i in range(count))
    stores = "\n".join(f"st.global.f32 [%d3+{4 * i}], %s{i};" for i in range(count))
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a0, .param .u64 a1, .param .u64 a2, .param .u64 a3)
{{
  .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b32 %w<5>; .reg .f32 %s<{count}>; .reg .b64 %d<20>;
  .reg .b64 %ad, %bd;
  .shared .align 1024 .b8 tiles[{2 * TILE}]; .shared .align 8 .b64 bar;
  ld.param.u64 %d0, [a0];
  ld.param.u64 %d1, [a1];
  ld.param.u64 %d2, [a2];
  ld.param.u64 %d3, [a3];
  mov.u32 %r0, %tid.x;
  mov.u32 %r20, tiles;
  mov.u32 %r21, bar;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra MADE;
  mbarrier.init.shared::cta.b64 [%r21], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
MADE:
  bar.sync 0;
  @%p1 bra AGAIN;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], {2 * TILE};
  add.u32 %r22, %r20, {TILE};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%d0], {TILE}, [%r21];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r22], [%d1], {TILE}, [%r21];
AGAIN:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r21], 0;
  @!%p2 bra AGAIN;
  mad.wide.u32 %d2, %r0, 20, %d2;
  ld.global.u32 %w0, [%d2];
  ld.global.u32 %w1, [%d2+4];
  ld.global.u32 %w2, [%d2+8];
  ld.global.u32 %w3, [%d2+12];
  ld.global.u32 %w4, [%d2+16];
  mad.wide.u32 %d3, %r0, {4 * count}, %d3;
  {loads}
  shr.u32 %r23, %r20, 4;
  cvt.u64.u32 %d4, %r23;
  or.b64 %ad, %d4, {left};
  add.u32 %r23, %r23, {TILE >> 4};
  cvt.u64.u32 %d4, %r23;
  or.b64 %bd, %d4, {right};
  wgmma.fence.sync.aligned;
  {name} {{{sums}}}, {a}, %bd, {", ".join(flags)};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  {stores}
  ret;
}}
"""


def fragment(matrix: np.ndarray) -> np.ndarray:
    """Return the sums ``[64, n]`` as threads hold them, ``[128, n / 2]``."""
    thread, i = np.arange(THREADS)[:, None], np.arange(matrix.shape[1] // 2)
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i % 4 // 2)
    return matrix[row, i // 4 * 8 + thread % 4 * 2 + i % 2]


def held(matrix: np.ndarray) -> np.ndarray:
    """Return a left matrix as threads hold it, ``[128, 4]`` words."""
    each = 4 // matrix.itemsize
    thread, r, e = np.ogrid[:THREADS, :4, :each]
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (r % 2)
    column = (thread % 4 + 4 * (r // 2)) * each + e
    return np.ascontiguousarray(matrix[row, column]).view("u4")[..., 0]


@dataclass
class Case:
    """A kernel's text and its arrays, and what the last one must become."""

    text: str
    arrays: list[np.ndarray]
    wanted: np.ndarray


def case(product: Product, seed: int = 0) -> Case:
    """Return a product of small integers."""
    rng, dtype = np.random.default_rng(seed), DTYPES[product.dtype]
    left = rng.integers(-3, 4, (ROWS, product.stored)).astype(dtype)
    right = rng.integers(-3, 4, (product.features, product.columns)).astype(dtype)
    sums = rng.integers(-9, 10, (ROWS, product.features)).astype("f4")
    words = np.zeros((THREADS, 5), "u4")
    full = left.astype("f4")
    if product.sparse:
        places = np.sort(rng.random((ROWS, product.stored // 2, 4)).argsort(-1)[..., :2], -1)
        full = np.zeros((ROWS, product.stored // 2, 4), "f4")
        np.put_along_axis(full, places, left.astype("f4").reshape(ROWS, -1, 2), -1)
        full = full.reshape(ROWS, -1)
        nibbles = (places[..., 0] | places[..., 1] << 2).reshape(ROWS, 2, 4)
        halves = (nibbles << 4 * np.arange(4)).sum(-1).astype("u4")  # of 16 columns each
        for thread in range(THREADS):
            row = thread // 32 * 16 + thread % 32 // 4
            if thread % 4 // 2 == product.selector:
                words[thread, 4] = halves[row, thread % 2] | halves[row + 8, thread % 2] << 16
            else:
                words[thread, 4] = 0x4444_4444
    tiles, descriptors = [np.zeros(TILE, "u1")], [0]
    if product.left:
        made, described = image(left, product.left)
        tiles, descriptors = [made], [described]
    else:
        words[:, :4] = held(left)
    made, described = image(right, product.right)
    sign = product.signs[0] * product.signs[1]
    wanted = sign * full @ right.astype("f4").T + (sums if product.adds else 0)
    arrays = [*tiles, made, words, np.ascontiguousarray(fragment(sums))]
    return Case(text(product, descriptors[0], described), arrays, fragment(wanted))
