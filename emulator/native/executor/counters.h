// What a launch did, in units that a model of time can use.
#pragma once
#include <cstdint>

#include "program.h"

namespace ptx {

struct Counters {
  uint64_t warps[kPipes] = {};  // instructions of warps, by pipe
  uint64_t lanes[kPipes] = {};  // of lanes that were active
  uint64_t load_bytes = 0, load_sectors = 0, store_bytes = 0, store_sectors = 0;  // global
  uint64_t copy_bytes = 0;  // of load_bytes, by cp.async
  uint64_t shared_bytes = 0;
  uint64_t shared_passes = 0;  // over the banks of shared memory
  uint64_t shared_least = 0;   // passes without any conflict
  uint64_t barriers = 0;       // warps that waited at one
  uint64_t waits = 0;          // warps that waited for asynchronous copies
  uint64_t divergent = 0;      // branches where lanes parted
  uint64_t multiply_adds = 0;  // of tensor cores and fma, lanes counted
  uint64_t blocks = 0;         // executed
};

// Sectors of 32 bytes that the addresses of a warp touch.
int Sectors(const uint64_t* address, int bytes, Mask mask);

// Passes over the 32 banks that an access takes, and how many it would take without conflicts.
int Passes(const uint64_t* address, int bytes, Mask mask, int* least);

}  // namespace ptx
