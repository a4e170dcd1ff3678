// Registers that products of a warpgroup read and write until a warp waits for them.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace ptx {

// A wgmma.mma_async that a warp has not waited for; its quarter of the rows is one warp's own.
struct Product {
  const Inst* inst;
  uint64_t left, right;  // descriptors of matrices in shared memory
  uint32_t group;
  bool adds;  // to the old sums
};

// What the warps of a warpgroup must have in common.
struct Issued {
  const Inst* last = nullptr;
  uint64_t hash = 0;
};

struct Touched {
  std::vector<uint16_t> results, inputs;  // products under way that write or read a register
  std::vector<uint32_t> written;          // the number of the fence before its last write
  uint32_t fences = 1;

  void Reset(uint32_t register_bytes);
  static uint32_t Index(Place place) { return place / 64; }
};

// Before an instruction runs: it may not touch what products own.
void CheckRegisters(Warp& warp, const Inst& inst);

// A product begins and ends to own its registers.
void TakeRegisters(Warp& warp, const Inst& inst);
void GiveRegisters(Warp& warp, const Inst& inst);

}  // namespace ptx
