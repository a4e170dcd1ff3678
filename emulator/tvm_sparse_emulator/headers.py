"""Headers of C and C++ that NVRTC lacks and files for nvcc include, by CUDA's own ones."""

from __future__ import annotations

_STD = """#pragma once
#include <cuda/std/cstddef>
#include <cuda/std/{}>
namespace std {{ using namespace cuda::std; }}
"""
_NUMBERS = "".join(
    f"using cuda::std::{sign}int{bits}_t;\n" for sign in ("", "u") for bits in (8, 16, 32, 64)
)
_ASSERT = """#pragma once
extern "C" __device__ void
__assertfail(const char*, const char*, unsigned, const char*, decltype(sizeof 0));
#ifdef NDEBUG
#define assert(e) ((void)0)
#else
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))
#endif
"""
_BOTH = {"cstdint": _NUMBERS, "cstddef": "", "climits": "", "cfloat": "", "cmath": ""}

HEADERS = {
    "cstdio": "",  # printf is built in
    "stdio.h": "",
    "cassert": _ASSERT,
    "assert.h": _ASSERT,
    "limits": _STD.format("limits"),
    "type_traits": _STD.format("type_traits"),
    "utility": _STD.format("utility"),
    **{name: _STD.format(name) + more for name, more in _BOTH.items()},
    **{f"{name[1:]}.h": _STD.format(name) + more for name, more in _BOTH.items()},
}
"""Name -> text."""
