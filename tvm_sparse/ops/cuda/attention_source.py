"""CUDA C of fused attention: a warp has 16 queries, a thread block stages keys and values.

The scores of a step stay in registers, and the sums that are kept are rescaled whenever a larger
score is met (Dao, FlashAttention-2, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

_TEMPLATE = """
__device__ __forceinline__ void {name}({type}* y, const {type}* q, const {type}* k,
    const {type}* v, {masks}float factor, int block, int rows, int keys,
    int y_row, int q_row, int k_row, int v_row{steps}) {{
  constexpr int D = {width}, STEP = {step}, WARPS = {warps}, PITCH = D + 8;
  __shared__ __align__(16) {type} staged[2][2][STEP][PITCH];
  const int lane = threadIdx.x % 32, low = lane % 4 * 2;
  const int first = (block * WARPS + (int)threadIdx.x / 32) * 16 + lane / 4;

  unsigned a[D / 16][4];
#pragma unroll
  for (int i = 0; i < D / 4; ++i) {{
    const int row = first + i % 2 * 8, column = i / 4 * 16 + i / 2 % 2 * 8 + low;
    a[i / 4][i % 4] = row < rows ? *(const unsigned*)(q + (long long)row * q_row + column) : 0;
  }}
  auto stage = [&](int at) {{
    for (int i = threadIdx.x; i < 2 * STEP * (D / 8); i += 32 * WARPS) {{
      const int which = i / (STEP * (D / 8)), row = i / (D / 8) % STEP, column = i % (D / 8) * 8;
      const int key = at * STEP + row;
      {type}* to = &staged[at % 2][which][row][column];
      const {type}* from = which ? v + (long long)key * v_row : k + (long long)key * k_row;
      if (key < keys)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
          :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from + column) : "memory");
      else
        *(uint4*)to = make_uint4(0, 0, 0, 0);
    }}
  }};
  auto fragments = [&](unsigned* r, const {type}* tile, int row, int column, bool turned) {{
    const unsigned at = (unsigned)__cvta_generic_to_shared(tile + row * PITCH + column);
    if (turned)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%0,%1,%2,%3}}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0,%1,%2,%3}}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
  }};
  auto multiply = [&](float* c, const unsigned* left, const unsigned* right) {{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
      "{{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%0,%1,%2,%3}};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  }};
  auto pair = [](float x, float y) {{
    unsigned both;
    asm("cvt.rn.{kind}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
  }};

  const float none = __int_as_float(0xff800000);  // minus infinity
  float most[2] = {{none, none}}, total[2] = {{0, 0}}, sums[D / 8][4] = {{}};
  const int steps = (keys + STEP - 1) / STEP;
  stage(0);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int at = 0; at < steps; ++at) {{
    if (at + 1 < steps) stage(at + 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    float c[STEP / 8][4] = {{}};
    unsigned b[4];
#pragma unroll
    for (int i = 0; i < D / 16; ++i)
#pragma unroll
      for (int j = 0; j < STEP / 16; ++j) {{
        const {type}* tile = &staged[at % 2][0][0][0];
        fragments(b, tile, j * 16 + lane / 16 * 8 + lane % 8, i * 16 + lane / 8 % 2 * 8, false);
        multiply(c[2 * j], a[i], b);
        multiply(c[2 * j + 1], a[i], b + 2);
      }}
#pragma unroll
    for (int side = 0; side < 2; ++side) {{
      const int row = first + side * 8;
{places}      float largest = most[side];
#pragma unroll
      for (int i = 0; i < STEP / 4; ++i) {{
        const int key = at * STEP + i / 2 * 8 + low + i % 2;
        float& score = c[i / 2][side * 2 + i % 2];
        score = key < keys ? score * factor : none;
{changes}        largest = fmaxf(largest, score);
      }}
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
      // Where all scores so far are minus infinity, differences of them would be no numbers.
      const float base = largest == none ? 0 : largest, scale = __expf(most[side] - base);
      float sum = 0;
#pragma unroll
      for (int i = 0; i < STEP / 4; ++i) {{
        float& score = c[i / 2][side * 2 + i % 2];
        sum += score = __expf(score - base);
      }}
      most[side] = largest;
      total[side] = total[side] * scale + sum;
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {{
        sums[i][side * 2] *= scale;
        sums[i][side * 2 + 1] *= scale;
      }}
    }}
#pragma unroll
    for (int i = 0; i < STEP / 16; ++i) {{
      unsigned p[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        p[j] = pair(c[2 * i + j / 2][j % 2 * 2], c[2 * i + j / 2][j % 2 * 2 + 1]);
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {{
        const {type}* tile = &staged[at % 2][1][0][0];
        fragments(b, tile, i * 16 + lane % 16, j * 16 + lane / 16 * 8, true);
        multiply(sums[2 * j], p, b);
        multiply(sums[2 * j + 1], p, b + 2);
      }}
    }}
    __syncthreads();
  }}
#pragma unroll
  for (int side = 0; side < 2; ++side) {{
    const int row = first + side * 8;
    float sum = total[side];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const float scale = {safe} && sum == 0 ? 0 : 1 / sum;
    if (row < rows)
#pragma unroll
      for (int i = 0; i < D / 8; ++i)
        *(unsigned*)(y + (long long)row * y_row + i * 8 + low) =
            pair(sums[i][side * 2] * scale, sums[i][side * 2 + 1] * scale);
  }}
}}
"""

_PLACE = """\
      const {type}* {mask}_at =
          {mask} + (long long)(row < rows ? row : 0) * {mask}_row + (at * STEP + low) * {mask}_key;
"""

_CHANGE = """\
        if (key < keys) {{
          const float own = (float){mask}_at[(i / 2 * 8 + i % 2) * {mask}_key];
          score = {result};
        }}
"""

_ADDED, _INSTEAD = "score + own", "own == 0 ? score : own"

_TYPES = {"float16": "half", "bfloat16": "nv_bfloat16"}
_KINDS = {"float16": "f16", "bfloat16": "bf16"}

WARP_ROWS = 16
"""Queries of a warp."""


def attention_source(
    dtype: str, width: int, *, warps: int, masks: Sequence[bool], safe: bool
) -> tuple[str, str]:
    """Return the name and the source of the function that one thread block calls.

    Parameters
    ----------
    dtype
        Of queries, keys, values and the result: ``"float16"`` or ``"bfloat16"``.
    width
        Elements of a head, a multiple of 16.
    warps
        Warps of a thread block.
    masks
        For each mask, in their order, whether what is not zero of it stands in the place of the
        scores, to which it is added otherwise.
    safe
        Whether a row whose scores are all minus infinity is zero, and not NaN.
    """
    kinds = "".join("s" if instead else "a" for instead in masks)
    name = f"ts_attention_{dtype}_{width}_{warps}_{kinds}{int(safe)}"
    numbered = [(f"mask{i}", instead) for i, instead in enumerate(masks)]
    text = _TEMPLATE.format(
        name=name,
        type=_TYPES[dtype],
        kind=_KINDS[dtype],
        width=width,
        step=64 if width <= 64 else 32,
        warps=warps,
        masks="".join(f"const {_TYPES[dtype]}* {mask}, " for mask, _ in numbered),
        steps="".join(f", int {mask}_row, int {mask}_key" for mask, _ in numbered),
        places="".join(_PLACE.format(type=_TYPES[dtype], mask=mask) for mask, _ in numbered),
        changes="".join(
            _CHANGE.format(mask=mask, result=_INSTEAD if instead else _ADDED)
            for mask, instead in numbered
        ),
        safe="true" if safe else "false",
    )
    return name, text
