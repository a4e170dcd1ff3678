"""Instructions that TVM's own code generator does not emit, as functions of inline PTX.

Those that write fragments take the first and the last element that they write (``ends``), so that
buffer compaction keeps whatever lies between.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.ops.cuda import mends

_LOAD = """
__device__ __forceinline__ void {name}(void* d, const void*, const void* s, int offset) {{
  unsigned at = (unsigned)__cvta_generic_to_shared((const short*)s + offset);
  unsigned* r = (unsigned*)d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{modifier}.shared.b16 {{%0,%1,%2,%3}}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}}
"""

_MULTIPLY = """
__device__ __forceinline__ void {name}({sums}* c, const void*, const void* left,
                                            const void* right) {{
  const unsigned* a = (const unsigned*)left;
  const unsigned* b = (const unsigned*)right;
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.{kind} "
      "{{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%0,%1,%2,%3}};"
      : "+{c}"(c[4 * half]), "+{c}"(c[4 * half + 1]), "+{c}"(c[4 * half + 2]),
        "+{c}"(c[4 * half + 3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * half]), "r"(b[2 * half + 1]));
}}
"""

_LOAD_WIDE = """
__device__ __forceinline__ void ts_ldmatrix_wide(void* d, const void*, const void* s, int offset,
                                                 int below) {
  unsigned* r = (unsigned*)d;
  for (int half = 0; half < 2; ++half) {
    unsigned at = (unsigned)__cvta_generic_to_shared((const short*)s + offset + half * below);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[4 * half]), "=r"(r[4 * half + 1]), "=r"(r[4 * half + 2]), "=r"(r[4 * half + 3])
      : "r"(at) : "memory");
  }
}
"""

_LOAD_KEPT = """
__device__ __forceinline__ void ts_load_kept(void* d, const void*, const void* values,
                                             const void* metadata, int lane) {
  unsigned* r = (unsigned*)d;
  for (int half = 0; half < 2; ++half) {
    uint4 v = ((const uint4*)values)[32 * half + lane];
    r[4 * half] = v.x; r[4 * half + 1] = v.y; r[4 * half + 2] = v.z; r[4 * half + 3] = v.w;
  }
  r[8] = ((const unsigned*)metadata)[lane];
}
"""

_MULTIPLY_KEPT = """
#define TS_MMA_SP(SELECTOR) \\
  asm volatile("mma.sp.sync.aligned.m16n8k32.row.col.f32.{kind}.{kind}.f32 " \\
    "{{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9,%10,%11}}, {{%0,%1,%2,%3}}, %12, " #SELECTOR ";" \\
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \\
    : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), \\
      "r"(metadata))
__device__ __forceinline__ void {name}(float* c, const void*, const void* rows,
                                       const void* features) {{
  const unsigned* w = (const unsigned*)features;
  unsigned metadata = w[8];
  for (int half = 0; half < 2; ++half) {{
    const unsigned* x = (const unsigned*)rows + 4 * half;
    TS_MMA_SP(0x0);
    c += 4;
  }}
  w += 4;
  for (int half = 0; half < 2; ++half) {{
    const unsigned* x = (const unsigned*)rows + 4 * half;
    TS_MMA_SP(0x1);
    c += 4;
  }}
}}
#undef TS_MMA_SP
"""

_DECODE = """
__device__ __forceinline__ void {name}({type}* out, const {type}* values, const int* words,
  int bank) {{
#pragma unroll
  for (int i = 0; i < {bank} * (int)sizeof({type}) / {width}; ++i) (({wide}*)out)[i] = {zero};
#pragma unroll
  for (int i = {keep} - 1; i >= 0; --i) {{  // backwards: unused slots, zeros of column 0, are last
    int slot = bank * {keep} + i;
    out[words[slot / {per_word}] >> slot % {per_word} * {bits} & {mask}] = values[slot];
  }}
}}
"""

_DECODE_HELD = """
__device__ __forceinline__ void {name}({type}* out, const {type}* values, const int* words,
  int bank) {{
  {type} held[{keep}];
  int place[{keep}];
#pragma unroll
  for (int i = 0; i < {keep}; ++i) {{
    int slot = bank * {keep} + i;
    held[i] = values[slot];
    place[i] = words[slot / {per_word}] >> slot % {per_word} * {bits} & {mask};
  }}
#pragma unroll
  for (int i = 0; i < {bank} * (int)sizeof({type}) / {width}; ++i) (({wide}*)out)[i] = {zero};
#pragma unroll
  for (int i = {keep} - 1; i >= 0; --i) out[place[i]] = held[i];  // backwards, as above
}}
"""
# No load waits for a store here: a chain of loads and stores takes 58 clocks a value.

MOST_HELD = 16
"""Values of a bank that a thread loads before it stores any; more would spill."""

_KINDS = {"float16": "f16", "bfloat16": "bf16"}
# How a bank is cleared: by 16 bytes at a time, or the eight that it has.
_WIDE = {"wide": "uint4", "width": 16, "zero": "make_uint4(0, 0, 0, 0)"}
_HALF = {"wide": "uint2", "width": 8, "zero": "make_uint2(0, 0)"}
_BYTES = {"int8": "s8", "uint8": "u8"}
# In CUDA C.
_TYPES = {"float16": "half", "bfloat16": "nv_bfloat16", "float32": "float", "int8": "signed char"}


def is_held(keep: int) -> bool:
    """Whether a thread loads all ``keep`` values of a bank before it stores any."""
    return mends.in_use().held_banks and keep <= MOST_HELD


@dataclass(frozen=True)
class BankDecoder:
    """A bank of ``bank`` columns that stores ``keep`` values and indices of ``bits``."""

    bank: int
    keep: int
    bits: int
    dtype: str

    @property
    def name(self) -> str:
        """Name of the function that decodes it."""
        return f"ts_decode_{self.bank}_{self.keep}_{self.dtype}"

    def source(self) -> str:
        """Return the function's source."""
        numbers = {"per_word": 32 // self.bits, "mask": (1 << self.bits) - 1}
        cleared = _HALF if self.bank * bits_of(self.dtype) % 128 else _WIDE
        template = _DECODE_HELD if is_held(self.keep) else _DECODE
        return template.format(
            name=self.name, type=_TYPES[self.dtype], **asdict(self), **numbers, **cleared
        )


class Form(enum.Enum):
    """How a 16 x 16 tile lies in shared memory, and as what operand it is loaded.

    ``LEFT`` is ``[row, k]``, ``RIGHT`` ``[feature, k]``, ``RIGHT_TRANSPOSED`` ``[k, feature]``.
    """

    LEFT = enum.auto()
    RIGHT = enum.auto()
    RIGHT_TRANSPOSED = enum.auto()

    def place(self, lane: Any) -> tuple[Any, Any]:
        """Return the row, and the first of eight columns, whose address lane ``lane`` passes.

        ``ldmatrix`` loads four 8 x 8 matrices; lanes ``8 q`` to ``8 q + 7`` name the rows of matrix
        ``q``, which becomes register pair ``q``. A product wants the pairs of its left operand in
        the order rows, then ``k``, those of each half of its right one next to each other.
        """
        if self is Form.RIGHT:
            return lane // 16 * 8 + lane % 8, lane // 8 % 2 * 8
        return lane % 16, lane // 16 * 8


def load(form: Form, ends: tuple[Any, Any], source: tirx.Buffer, lane: Any, pitch: Any) -> Any:
    """Return the call that reads a tile of 16 x 16 elements of 16 bits, rows ``pitch`` apart.

    Two neighbouring bytes are such an element: lanes then hold four bytes of a row side by side.
    """
    row, column = form.place(lane)
    transposed = form is Form.RIGHT_TRANSPOSED
    name = "ts_ldmatrix_t" if transposed else "ts_ldmatrix"
    code = _LOAD.format(name=name, modifier=".trans" if transposed else "")
    return T.cuda.func_call(name, *ends, source, row * pitch + column, source_code=code)


def multiply(ends: tuple[Any, Any], left: Any, right: Any, dtype: str, *, weights: str) -> Any:
    """Return the call that adds a product of 16 x 16 sums, 32 bytes long, to eight registers.

    Activations are of ``dtype``. Bytes have ``weights`` of either sign, and sums of int32.
    """
    name = f"ts_mma_{dtype}" + "_unsigned" * (weights == "uint8")
    if dtype in _BYTES:
        kind = f"m16n8k32.row.col.s32.{_BYTES[dtype]}.{_BYTES[weights]}.s32"
        sums, c = "int", "r"
    else:
        half = _KINDS[dtype]
        kind, sums, c = f"m16n8k16.row.col.f32.{half}.{half}.f32", "float", "f"
    code = _MULTIPLY.format(name=name, kind=kind, sums=sums, c=c)
    return T.cuda.func_call(name, *ends, left, right, source_code=code)


def load_wide(ends: tuple[Any, Any], source: tirx.Buffer, lane: Any, pitch: Any) -> Any:
    """Return the call that reads a tile of 16 rows x 32 columns: eight rows, then eight more.

    The right operand of ``mma.sp.m16n8k32``: registers in the order of columns.
    """
    place = (*ends, source, lane % 8 * pitch + lane // 8 * 8, pitch * 8)
    return T.cuda.func_call("ts_ldmatrix_wide", *place, source_code=_LOAD_WIDE)


def load_kept(ends: tuple[Any, Any], values: Any, metadata: Any, lane: Any) -> Any:
    """Return the call that reads a lane's values of a 2:4 piece, and its word of metadata."""
    name, place = "ts_load_kept", tirx.Cast("int32", lane)
    return T.cuda.func_call(name, *ends, values, metadata, place, source_code=_LOAD_KEPT)


def multiply_kept(ends: tuple[Any, Any], rows: Any, features: Any, dtype: str) -> Any:
    """Return the call that adds a product of 16 rows, 32 features and 32 columns.

    Halves of the features first, as the metadata is selected, then halves of the rows.
    """
    name = f"ts_mma_sp_{dtype}"
    code = _MULTIPLY_KEPT.format(name=name, kind=_KINDS[dtype])
    return T.cuda.func_call(name, *ends, rows, features, source_code=code)


def decode(out: tirx.Buffer, values: Any, words: Any, place: Any, bank: BankDecoder) -> Any:
    """Return the call that clears a bank of shared memory and fills in its values.

    ``out`` is the bank; ``values`` and ``words`` belong to all banks of its row, of which it is
    number ``place``.
    """
    return T.cuda.func_call(bank.name, out, values, words, place, source_code=bank.source())
