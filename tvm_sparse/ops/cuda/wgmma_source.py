"""CUDA C of kept blocks on Hopper's tensor cores: a thread block multiplies one block row.

Weights are the side of a product with 64 rows; a step is a block of 64 columns. Every thread copies
activations into the swizzle of 128 bytes, one thread asks for the packed weights in one bulk copy.
"""

from __future__ import annotations

from tvm_sparse.base.numerics import FLOAT_SUMS

GROUP = 64
"""Features of a warpgroup's product, and columns of a step."""

GROUP_THREADS = 128

_TEMPLATE = """
__device__ __forceinline__ void {name}_multiply(float (&d)[{sums}], unsigned long long w,
                                                unsigned long long x) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{rows}k16.f32.{kind}.{kind} {{{registers}}}, "
    "%{left}, %{right}, 1, 1, 1, 0, 0;" : {held} : "l"(w), "l"(x));
}}
__device__ __forceinline__ void {name}({result}* out, int pitch, unsigned char* shared,
    const {type}* x, const {type}* values, const int* columns, const int* starts,
    int first, int rows, int width) {{
  constexpr int ROWS = {rows}, GROUPS = {groups}, STAGES = {stages}, THREADS = 128 * GROUPS;
  constexpr int WEIGHTS = 8192 * GROUPS, STAGE = WEIGHTS + 128 * ROWS;
  const unsigned raw = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned ring = (raw + 1023u) & ~1023u, full = ring + STAGES * STAGE;
  const int thread = threadIdx.x;
  const int begin = starts[0], steps = starts[1] - begin;
  if (thread == 0) {{
#pragma unroll
    for (int slot = 0; slot < STAGES; ++slot)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + 8 * slot) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }}
  __syncthreads();
  auto stage = [&](int step) {{
    if (step < steps) {{
      const unsigned slot = step % STAGES, to = ring + slot * STAGE, barrier = full + 8 * slot;
      if (thread == 0) {{
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
          :: "r"(barrier), "n"(WEIGHTS) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
          "[%0], [%1], %2, [%3];"
          :: "r"(to), "l"(values + (long long)(begin + step) * (WEIGHTS / 2)), "n"(WEIGHTS),
             "r"(barrier) : "memory");
      }}
      const int chunk = thread % 8, column = columns[begin + step] * 64 + chunk * 8;
#pragma unroll
      for (int i = 0; i < (ROWS * 8 + THREADS - 1) / THREADS; ++i) {{
        const int row = thread / 8 + i * (THREADS / 8);
        const bool inside = first + row < rows && column < width;
        const {type}* from = inside ? x + (long long)(first + row) * width + column : x;
        if (ROWS % (THREADS / 8) == 0 || row < ROWS)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"(to + WEIGHTS + row * 128 + ((chunk ^ row % 8) * 16)), "l"(from),
               "r"(inside ? 16 : 0) : "memory");
      }}
    }}
    asm volatile("cp.async.commit_group;" ::: "memory");
  }};
  auto matrix = [](unsigned at) {{
    return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
  }};
  float sums[ROWS / 2];
#pragma unroll
  for (int i = 0; i < ROWS / 2; ++i) sums[i] = 0;
#pragma unroll
  for (int step = 0; step < STAGES - 2; ++step) stage(step);
  for (int step = 0; step < steps; ++step) {{
    const unsigned slot = step % STAGES, at = ring + slot * STAGE;
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 3) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("{{\\n.reg .pred p;\\nAGAIN:\\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra DONE;\\nbra AGAIN;\\n"
      "DONE:\\n}}" :: "r"(full + 8 * slot), "r"(step / STAGES & 1) : "memory");
    __syncthreads();
    stage(step + STAGES - 2);
    const unsigned long long w = matrix(at + thread / 128 * 8192), a = matrix(at + WEIGHTS);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) {name}_multiply(sums, w + 2 * k, a + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }}
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int feature = thread / 32 * 16 + thread % 32 / 4, low = thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < ROWS / 2; ++i)
    out[(i / 4 * 8 + low + i % 2) * pitch + feature + i / 2 % 2 * 8] = ({result})sums[i];
  __syncthreads();
}}
"""

_TYPES = {"float16": "half", "bfloat16": "nv_bfloat16", FLOAT_SUMS: "float"}
_KINDS = {"float16": "f16", "bfloat16": "bf16"}


def shared_bytes(rows: int, groups: int, stages: int) -> int:
    """Return the bytes of shared memory of a ring: stages, barriers, and room to align them."""
    return stages * (8192 * groups + 128 * rows + 8) + 1024


def wgmma_source(
    dtype: str, out_dtype: str, rows: int, groups: int, stages: int
) -> tuple[str, str]:
    """Return the name and the source of the function that one thread block calls.

    Parameters
    ----------
    dtype
        Of activations and weights: ``"float16"`` or ``"bfloat16"``.
    out_dtype
        Of the result: the same, or ``"float32"``.
    rows
        Rows of activations in a tile, a multiple of 8 up to 256.
    groups
        Warpgroups of 64 features each.
    stages
        Steps that the ring holds, at least 3.
    """
    name, count = f"ts_wgmma_{dtype}_{out_dtype}_{rows}_{groups}_{stages}", rows // 2
    text = _TEMPLATE.format(
        name=name,
        type=_TYPES[dtype],
        result=_TYPES[out_dtype],
        kind=_KINDS[dtype],
        rows=rows,
        groups=groups,
        stages=stages,
        sums=count,
        registers=", ".join(f"%{i}" for i in range(count)),
        held=", ".join(f'"+f"(d[{i}])' for i in range(count)),
        left=count,
        right=count + 1,
    )
    return name, text
