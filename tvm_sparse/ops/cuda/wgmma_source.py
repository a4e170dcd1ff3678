"""CUDA C of weights on Hopper's tensor cores: a thread block multiplies the features of one tile.

Weights are the side of a product with 64 rows, packed in the order of shared memory. Every thread
copies activations into the swizzle of 128 bytes, one thread asks for a step's weights by bulk copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_sparse.base.numerics import FLOAT_SUMS

GROUP = 64
"""Features of a warpgroup's product, and columns of a box of activations."""

GROUP_THREADS = 128


@dataclass(frozen=True)
class Weights:
    """How weights are stored and multiplied: ``columns`` of a step, and C text.

    ``nbytes`` are those of a step and a warpgroup: of its values, and of what stands behind them.
    ``parameters`` and ``begin`` say where a thread block's steps begin and how many they are;
    ``column`` is the first column of ``step``, ``others`` the address of what stands behind values.
    ``product`` is the instruction, with its ``operands`` and ``flags``. ``multiply`` asks for
    number ``k`` of four in a step, ``prepare`` loads what these need in registers. ``pending``
    steps are under way when the next one begins: none where its registers would be loaded then,
    since the assembler would let every single product wait.
    """

    name: str
    columns: int
    nbytes: tuple[int, int]
    parameters: str
    begin: str
    column: str
    others: str
    product: str
    operands: tuple[tuple[str, str], ...]
    flags: str
    prepare: str
    multiply: str
    pending: int


_MATRICES = (("unsigned long long w", '"l"(w)'), ("unsigned long long x", '"l"(x)'))

KEPT = Weights(
    name="kept",
    columns=64,
    nbytes=(8192, 0),
    parameters="const int* columns, const int* starts",
    begin="const int begin = starts[0], steps = starts[1] - begin;",
    column="columns[begin + step] * 64",
    others="",
    product="wgmma.mma_async.sync.aligned.m64n{rows}k16",
    operands=_MATRICES,
    flags="1, 1, 1, 0, 0",
    prepare="",
    multiply="{name}_multiply(sums, w + 2 * k, a + 2 * k);",
    pending=1,
)
"""Kept blocks of 64 columns, which a table names."""

TWO_FOUR = Weights(
    name="two_four",
    columns=128,
    nbytes=(8192, 1024),
    parameters="const int* places, int steps",
    begin="const int begin = 0;",
    column="step * 128",
    others="places + step * (OTHERS / 4)",
    product="wgmma.mma_async.sp.sync.aligned.m64n{rows}k32",
    operands=(*_MATRICES, ("unsigned places", '"r"(places)')),
    flags="0, 1, 1, 1, 0, 0",
    prepare="""unsigned words[4];
    const int word = thread / 128 * 256 + thread / 32 % 4 * 16 + thread % 32 / 4 * 2 + thread % 2;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[k])
        : "r"(at + VALUES + (word + k * 64) * 4));""",
    multiply="{name}_multiply(sums, w + 2 * k, a + k / 2 * (ROWS * 8) + k % 2 * 4, words[k]);",
    pending=0,
)
"""Two of four neighbouring columns in each feature, and words that name their places. Lane ``4 r +
q`` of a warp gives the word of features ``r`` and ``r + 8``, of half ``q % 2`` of 32 columns."""

_TEMPLATE = """
__device__ __forceinline__ void {name}_multiply(float (&d)[{sums}], {inputs}) {{
  asm volatile("{product}.f32.{kind}.{kind} {{{registers}}}, "
    "{operands}, {flags};" : {held} : {given});
}}
__device__ __forceinline__ void {name}_copy(unsigned to, const void* from, unsigned nbytes,
                                            unsigned barrier) {{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%0], [%1], %2, [%3];" :: "r"(to), "l"(from), "r"(nbytes), "r"(barrier) : "memory");
}}
__device__ __forceinline__ void {name}({result}* out, int pitch, unsigned char* shared,
    const {type}* x, const {type}* values, {parameters}, int first, int rows, int width) {{
  constexpr int ROWS = {rows}, GROUPS = {groups}, STAGES = {stages}, THREADS = 128 * GROUPS;
  constexpr int VALUES = {values} * GROUPS, OTHERS = {others_bytes} * GROUPS;
  constexpr int WEIGHTS = VALUES + OTHERS, CHUNKS = {columns} / 8, APART = THREADS / CHUNKS;
  constexpr int STAGE = WEIGHTS + 2 * {columns} * ROWS;
  const unsigned raw = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned ring = (raw + 1023u) & ~1023u, full = ring + STAGES * STAGE;
  const int thread = threadIdx.x;
  {begin}
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
        {name}_copy(to, values + (long long)(begin + step) * (VALUES / 2), VALUES, barrier);
        {more}
      }}
      const int chunk = thread % CHUNKS, column = {column} + chunk * 8;
      const unsigned box = to + WEIGHTS + chunk / 8 * (128 * ROWS);
#pragma unroll
      for (int i = 0; i < (ROWS * CHUNKS + THREADS - 1) / THREADS; ++i) {{
        const int row = thread / CHUNKS + i * APART;
        const bool inside = first + row < rows && column < width;
        const {type}* from = inside ? x + (long long)(first + row) * width + column : x;
        if (ROWS % APART == 0 || row < ROWS)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"(box + row * 128 + ((chunk % 8 ^ row % 8) * 16)), "l"(from),
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
  for (int i = 0; i < ROWS / 2; ++i) {{
    sums[i] = 0;
    asm volatile("" : "+f"(sums[i]) :: "memory");  // not behind the fence of the first product
  }}
#pragma unroll
  for (int step = 0; step < STAGES - 2; ++step) stage(step);
  auto multiply = [&](int step) {{
    const unsigned slot = step % STAGES, at = ring + slot * STAGE;
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 3) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("{{\\n.reg .pred p;\\nAGAIN:\\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra DONE;\\nbra AGAIN;\\n"
      "DONE:\\n}}" :: "r"(full + 8 * slot), "r"(step / STAGES & 1) : "memory");
    __syncthreads();
    stage(step + STAGES - 2);
    const unsigned long long w = matrix(at + thread / 128 * 8192), a = matrix(at + WEIGHTS);
    {prepare}
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) {multiply}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned {pending};" ::: "memory");
  }};
  if (steps > 0) {{  // else sums of two origins would meet before the wait, and products take turns
    int step = 0;
    do {{
      multiply(step);
    }} while (++step < steps);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }}
  const int feature = thread / 32 * 16 + thread % 32 / 4, low = thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < ROWS / 2; ++i)
    out[(i / 4 * 8 + low + i % 2) * pitch + feature + i / 2 % 2 * 8] = ({result})sums[i];
  __syncthreads();
}}
"""

_TYPES = {"float16": "half", "bfloat16": "nv_bfloat16", FLOAT_SUMS: "float"}
_KINDS = {"float16": "f16", "bfloat16": "bf16"}


def shared_bytes(weights: Weights, rows: int, groups: int, stages: int) -> int:
    """Return the bytes of shared memory of a ring: stages, barriers, and room to align them."""
    stage = sum(weights.nbytes) * groups + 2 * weights.columns * rows
    return stages * (stage + 8) + 1024


def wgmma_source(
    weights: Weights, types: tuple[str, str], rows: int, groups: int, stages: int
) -> tuple[str, str]:
    """Return the name and the source of the function that one thread block calls.

    Parameters
    ----------
    weights
        How they are stored and multiplied.
    types
        Of activations and weights, ``"float16"`` or ``"bfloat16"``; of the result: the same, or
        ``"float32"``.
    rows
        Rows of activations in a tile, a multiple of 8 up to 256.
    groups
        Warpgroups of 64 features each.
    stages
        Steps that the ring holds, at least 3.
    """
    (dtype, result), count = types, rows // 2
    name = f"ts_wgmma_{weights.name}_{dtype}_{result}_{rows}_{groups}_{stages}"
    inputs, given = zip(*weights.operands, strict=True)
    values, others = weights.nbytes
    more = f"{name}_copy(to + VALUES, {weights.others}, OTHERS, barrier);" if others else ""
    text = _TEMPLATE.format(
        name=name,
        type=_TYPES[dtype],
        result=_TYPES[result],
        kind=_KINDS[dtype],
        rows=rows,
        groups=groups,
        stages=stages,
        columns=weights.columns,
        values=values,
        others_bytes=others,
        parameters=weights.parameters,
        begin=weights.begin,
        column=weights.column,
        more=more,
        prepare=weights.prepare,
        pending=weights.pending,
        multiply=weights.multiply.format(name=name),
        product=weights.product.format(rows=rows),
        inputs=", ".join(inputs),
        given=", ".join(given),
        operands=", ".join(f"%{count + i}" for i in range(len(inputs))),
        flags=weights.flags,
        sums=count,
        registers=", ".join(f"%{i}" for i in range(count)),
        held=", ".join(f'"+f"(d[{i}])' for i in range(count)),
    )
    return name, text
