"""The tensor-core instructions that TVM's own code generator does not emit, as inline PTX."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

_LOAD = """
__device__ __forceinline__ void {name}(void* d, const void*, const void* s, int offset) {{
  unsigned at = (unsigned)__cvta_generic_to_shared((const short*)s + offset);
  unsigned* r = (unsigned*)d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{modifier}.shared.b16 {{%0,%1,%2,%3}}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}}
"""

_MULTIPLY = """
__device__ __forceinline__ void {name}(float* c, const void*, const void* left,
                                            const void* right) {{
  const unsigned* a = (const unsigned*)left;
  const unsigned* b = (const unsigned*)right;
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
      "{{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%0,%1,%2,%3}};"
      : "+f"(c[4 * half]), "+f"(c[4 * half + 1]), "+f"(c[4 * half + 2]), "+f"(c[4 * half + 3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * half]), "r"(b[2 * half + 1]));
}}
"""

_KINDS = {"float16": "f16", "bfloat16": "bf16"}


class Intrinsics:
    """``ldmatrix`` and ``mma`` on fragments of eight registers a lane.

    Each takes the first and the last element that it writes, so that buffer compaction keeps
    whatever lies between.
    """

    def load(
        self, first: Any, last: Any, source: Any, offset: Any, pitch: Any, *, transposed: bool
    ) -> Any:
        """Return the call that reads a 16 x 16 tile of 16-bit elements.

        Lane ``l`` passes the address of row ``l % 16``, half ``l // 16``. Untransposed that is the
        left operand of a product; transposed, from ``[k, feature]``, the right one.
        """
        del pitch  # already in the offset; stand-ins for tests need it
        name = "ts_ldmatrix_t" if transposed else "ts_ldmatrix"
        code = _LOAD.format(name=name, modifier=".trans" if transposed else "")
        return T.cuda.func_call(name, first, last, source, offset, source_code=code)

    def multiply(self, first: Any, last: Any, left: Any, right: Any, dtype: str) -> Any:
        """Return the call that adds a 16 x 16 x 16 product to eight fp32 registers."""
        name = f"ts_mma_{dtype}"
        code = _MULTIPLY.format(name=name, kind=_KINDS[dtype])
        return T.cuda.func_call(name, first, last, left, right, source_code=code)
