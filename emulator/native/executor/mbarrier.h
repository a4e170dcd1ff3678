// mbarriers: phases that end when all have arrived and all bytes have come; bulk copies.
#pragma once
#include <cstdint>
#include <vector>

#include "clock.h"
#include "program.h"

namespace ptx {

struct Block;
enum class Note;

constexpr int kMBarrierBytes = 8;

// A part of a bulk copy, in one piece on both sides.
struct Piece {
  uint64_t shared;
  char* global;  // null: outside of a tensor, where zeros are read and nothing is written
  uint32_t bytes;
};

struct BulkCopy {
  const Inst* inst;
  std::vector<Piece> pieces;
};

// What becomes of bytes in global memory by others: cp.reduce.async.bulk.
using Combine = void (*)(char* to, const char* from, uint32_t bytes);

// A bulk copy to global memory that has not read its source.
struct BulkStore {
  const Inst* inst;
  int lane;
  uint32_t group;
  uint64_t from;  // in shared memory
  uint32_t bytes;
  std::vector<Piece> pieces;
  Combine combine = nullptr;  // null: a copy
};

struct MBarrier {
  uint32_t index;  // of those of its block
  uint32_t count, pending;
  uint32_t phase = 0;
  int64_t bytes = 0;      // expected and not yet arrived
  int64_t under_way = 0;  // of `copies`
  std::vector<BulkCopy> copies;
  std::vector<uint32_t> asked;  // phases over when each warp asked last
  Known gathered, known;        // of this phase, and of those before
};

// Copies have come if a phase may end by that: they are as late as that allows.
void Settle(Block& block, MBarrier* barrier, bool asked);

// Whether the phase that a lane names, by its number or parity, is over. A warp that asks for the
// first time may be early.
bool IsOver(Warp& warp, int lane, MBarrier* barrier, uint64_t named, bool parity);

// Check an access to a mbarrier's own bytes; false if there is no place for one.
bool ReachMBarrier(Warp& warp, const Inst& inst, int lane, uint64_t address, Note note);

// The mbarrier at an address, or null with a finding.
MBarrier* FindMBarrier(Warp& warp, const Inst& inst, int lane, uint64_t address);

// A copy begins; its bytes are told to the mbarrier when they have come.
void BeginCopy(Warp& warp, const Inst& inst, int lane, uint64_t mbarrier,
               const std::vector<Piece>& pieces);

}  // namespace ptx
