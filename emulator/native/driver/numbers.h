// What the stand-ins of libraries share: numbers in memory, and how a library is made to fail.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "../executor/half.h"

namespace library {

constexpr int kFloat = 0, kHalf = 2;  // of all libraries; a known type that is neither is bfloat16

inline uint64_t Bytes(int type) { return type == kFloat ? 4 : 2; }

inline double Load(const void* data, int type, uint64_t at) {
  if (type == kFloat) return static_cast<const float*>(data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(data)[at];
  return type == kHalf ? ptx::Half{bits}.Value() : ptx::Bfloat{bits}.Value();
}

inline void Store(void* data, int type, uint64_t at, double value) {
  if (type == kFloat) {
    static_cast<float*>(data)[at] = static_cast<float>(value);
  } else {
    static_cast<uint16_t*>(data)[at] =
        type == kHalf ? ptx::Half::Of(value).bits : ptx::Bfloat::Of(value).bits;
  }
}

// Whether the variable asks for such a failure.
inline bool Fails(const char* variable, const char* how) {
  const char* asked = std::getenv(variable);
  return asked && std::strcmp(asked, how) == 0;
}

}  // namespace library
