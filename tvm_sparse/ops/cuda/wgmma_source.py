"""CUDA C of weights on Hopper's tensor cores: a thread block multiplies the features of one tile.

Weights are the side of a product with 64 rows, packed in the order of shared memory. Threads copy
activations into the swizzle of 128 bytes, one thread asks for a step's weights by bulk copy. Where
weights are tiles, all threads copy and multiply. Banks have teams of threads that copy, take turns
in steps and put values into tiles, and one that multiplies.
"""

from __future__ import annotations

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.cuda.wgmma_weights import Weights

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
    const {type}* x, const void* values, {parameters}, int part, int first, int rows,
    int width) {{
  constexpr int ROWS = {rows}, GROUPS = {groups}, STAGES = {stages}, THREADS = 128 * GROUPS;
  constexpr int VALUES = {values} * GROUPS, OTHERS = {others_bytes} * GROUPS;
  constexpr int WEIGHTS = VALUES + OTHERS, CHUNKS = {columns} / 8, APART = THREADS / CHUNKS;
  constexpr int BOX = (WEIGHTS + 1023) / 1024 * 1024, STAGE = BOX + 2 * {columns} * ROWS;
  constexpr int SLOTS = {slots}, TEAMS = {teams}, TILES = {tiles}, TILE = 8192 * GROUPS;
  constexpr int AHEAD = STAGES - {later};
  constexpr int PARTS = {parts};
  constexpr bool PACKED = {packed};
  const unsigned raw = (unsigned)__cvta_generic_to_shared(shared);
  const unsigned ring = (raw + 1023u) & ~1023u, tiles = ring + STAGES * STAGE;
  const unsigned full = tiles + TILES * TILE, ready = full + 8 * STAGES, empty = ready + 8 * TILES;
  const int team = TEAMS ? threadIdx.x / THREADS : 0, thread = threadIdx.x - team * THREADS;
  {begin}
  const int skipped = PARTS > 1 ? steps * part / PARTS : 0;
  const int turns = PARTS > 1 ? steps * (part + 1) / PARTS - skipped : steps;
  if (threadIdx.x == 0) {{
#pragma unroll
    for (int i = 0; i < STAGES + 2 * TILES; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
        :: "r"(full + 8 * i), "r"(i < STAGES ? 1 : THREADS / 32) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }}
  __syncthreads();
  auto stage = [&](int turn) {{
    if (turn < turns) {{
      const int step = skipped + turn;
      const unsigned slot = turn % STAGES, to = ring + slot * STAGE, barrier = full + 8 * slot;
      if (PACKED && thread == 0) {{
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
          :: "r"(barrier), "n"(WEIGHTS) : "memory");
        {name}_copy(to, (const char*)values + (long long)(begin + step) * VALUES, VALUES,
          barrier);
        {more}
      }}
{copies}
      const int chunk = thread % CHUNKS, column = {column} + chunk * 8;
      const unsigned box = to + BOX + chunk / 8 * (128 * ROWS);
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
  auto wait = [](unsigned barrier, int parity) {{
    asm volatile("{{\\n.reg .pred p;\\nAGAIN:\\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra DONE;\\nbra AGAIN;\\n"
      "DONE:\\n}}" :: "r"(barrier), "r"(parity & 1) : "memory");
  }};
  float sums[ROWS / 2];
#pragma unroll
  for (int i = 0; i < ROWS / 2; ++i) {{
    sums[i] = 0;
    asm volatile("" : "+f"(sums[i]) :: "memory");  // not behind the fence of the first product
  }}
  auto multiply = [&](unsigned weights, unsigned at) {{
    const unsigned long long w = matrix(weights + thread / 128 * 8192), a = matrix(at + BOX);
    {prepare}
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) {multiply}
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned {pending};" ::: "memory");
  }};
{loop}
  const int feature = thread / 32 * 16 + thread % 32 / 4, low = thread % 4 * 2;
  if (team == 0) {{
#pragma unroll
    for (int i = 0; i < ROWS / 2; ++i)
      out[(i / 4 * 8 + low + i % 2) * pitch + feature + i / 2 % 2 * 8] = ({result})sums[i];
  }}
  __syncthreads();
}}
"""

_COPIES = """
#pragma unroll
      for (int i = 0; i < 4; ++i) {{
        const int piece = (i * THREADS + thread) % (8 * GROUPS);
        const int down = (i * THREADS + thread) / (8 * GROUPS), at = {column} + down;
        const long long far = at < width ? (long long)at * lanes + piece * 8 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
          :: "r"(to + piece / 8 * 8192 + down * 128 + ((piece % 8 ^ down % 8) * 16)),
             "l"((const {type}*)values + far),
             "r"(at < width ? 16 : 0) : "memory");
      }}"""
"""All threads copy 64 columns of a matrix, zeros beyond the last."""

_ALONE = """
#pragma unroll
  for (int step = 0; step < AHEAD; ++step) stage(step);
  auto turn = [&](int step) {
    const unsigned slot = step % STAGES, at = ring + slot * STAGE;
    asm volatile("cp.async.wait_group %0;" :: "n"(AHEAD - 1) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (PACKED) wait(full + 8 * slot, step / STAGES);
    __syncthreads();
    stage(step + AHEAD);
    multiply(at, at);
  };
  if (turns > 0) {  // else sums of two origins would meet before the wait, and products take turns
    int step = 0;
    do {
      turn(step);
    } while (++step < turns);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
"""
"""All threads copy and multiply; a step is asked for when the last one that was there is over."""

_FED = """
  constexpr int VALUE_WORDS = (SLOTS + 1) / 2, WORDS = VALUE_WORDS + (SLOTS + 3) / 4;
  auto arrive = [&](unsigned barrier) {  // all lanes of the warp
    __syncwarp();
    if (thread % 32 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
  };
  if (team) {
#pragma unroll
    for (int step = 0; step < AHEAD; step += TEAMS) stage(step + team - 1);
    for (int step = team - 1; step < turns; step += TEAMS) {
      const unsigned tile = step % TILES, slot = step % STAGES;
      if (step >= TILES) wait(empty + 8 * tile, step / TILES + 1);
      stage(step + AHEAD);
      asm volatile("cp.async.wait_group %0;" :: "n"(AHEAD / TEAMS) : "memory");
      wait(full + 8 * slot, step / STAGES);
      unsigned words[WORDS];
#pragma unroll
      for (int i = 0; i < WORDS; ++i)
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[i])
          : "r"(ring + slot * STAGE + (i * THREADS + thread) * 4));
      const unsigned zeros = tiles + tile * TILE + thread / 32 * 2048 + thread % 32 * 16;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};"
          :: "r"(zeros + i * 512), "r"(0) : "memory");
      __syncwarp();
#pragma unroll
      for (int i = 0; i < SLOTS; ++i) {
        const unsigned place = words[VALUE_WORDS + i / 4] >> i % 4 * 8 & 255;
        asm volatile("st.shared.u16 [%0], %1;"
          :: "r"(tiles + tile * TILE + thread / 2 * 128 + place),
             "h"((unsigned short)(words[i / 2] >> i % 2 * 16)) : "memory");
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      arrive(ready + 8 * tile);
    }
  } else if (turns > 0) {
    int step = 0;
    do {
      const unsigned tile = step % TILES;
      wait(ready + 8 * tile, step / TILES);
      multiply(tiles + tile * TILE, ring + step % STAGES * STAGE);
      if (step > 0) arrive(empty + 8 * ((step - 1) % TILES));
    } while (++step < turns);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
"""
"""Teams copy and put values into tiles, each every ``TEAMS``-th step; the first one multiplies. A
tile that is multiplied gives its place back, and the activations of its step, one step later."""

_TYPES = {"float16": "half", "bfloat16": "nv_bfloat16", FLOAT_SUMS: "float"}
_KINDS = {"float16": "f16", "bfloat16": "bf16"}


def shared_bytes(weights: Weights, rows: int, groups: int, stages: int) -> int:
    """Return the bytes of shared memory of a ring: stages, barriers, and room to align them."""
    stage = -(-sum(weights.nbytes) * groups // 1024) * 1024 + 2 * weights.columns * rows
    tile = 8192 * groups + 2 * 8
    return stages * (stage + 8) + weights.tiles * tile + 1024


def wgmma_source(
    weights: Weights, types: tuple[str, str], rows: int, groups: int, stages: int, *, parts: int
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
        Steps that the ring holds, at least 3. Of banks an even number, more than tiles.
    parts
        Parts of the steps, of which a thread block takes one.
    """
    (dtype, result), count = types, rows // 2
    name = f"ts_wgmma_{weights.name}{weights.slots or ''}_{dtype}_{result}"
    name += f"_{rows}_{groups}_{stages}_{parts}"
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
        packed=str(weights.packed).lower(),
        copies="" if weights.packed else _COPIES.format(column=weights.column, type=_TYPES[dtype]),
        parts=parts,
        slots=weights.slots,
        teams=weights.teams,
        tiles=weights.tiles,
        later=weights.tiles or 2,
        loop=_FED if weights.teams else _ALONE,
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
