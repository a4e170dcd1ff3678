// Swizzles of shared memory: which 16 bytes of a row lie where. The pattern hangs on the address.
#pragma once
#include <cstdint>

namespace ptx {

// Of patterns `32 << (power - 1)` bytes wide; power 0: none.
inline uint64_t Swizzled(uint64_t address, int power) {
  return address ^ ((address >> 3) & ((uint64_t{1} << power) - 1) << 4);
}

}  // namespace ptx
