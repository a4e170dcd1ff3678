// How instructions reach memory: addresses of a warp, checked, counted, as pointers of the host.
#pragma once
#include "machine.h"

namespace ptx {

struct Reached {
  uint64_t address[kLanes];  // within the space
  char* data[kLanes];        // where a lane's element lies
  Mask lanes;                // those that may access it
};

enum class Use { kRead, kWrite, kChange };  // the last one does both at once

// The addresses of an instruction's address operand `place`.
void Addresses(const Warp& warp, const Inst& inst, Place place, Mask mask, uint64_t* address);

// Check and count accesses of `bytes` each at `reached->address`; sets `data` and `lanes`.
void Reach(Warp& warp, const Inst& inst, Space space, int bytes, Mask mask, Use use,
           Reached* reached);

// Where an address in shared memory lies, for reports.
std::string SharedName(const Warp& warp, uint64_t address);

// Lanes whose addresses may be accessed in shared memory; reports the others.
Mask SharedBounds(Warp& warp, const Inst& inst, const uint64_t* address, int bytes, Mask mask);

// Note an access of one lane in the shadow, and report what is wrong about it.
// Look: an access of the asynchronous proxy will follow.
enum class Note { kRead, kWrite, kChange, kBegin, kLookRead, kLookWrite };
void NoteShared(Warp& warp, const Inst& inst, int lane, uint64_t address, int bytes, Note note);

// Address `at` of an instruction with several: args hold its register and its offset from `at` on,
// bit `at / 2` of `narrow` says whether the register has 32 bits.
uint64_t LaneAddress(const Warp& warp, const Inst& inst, int at, int lane);

// An address in shared memory, given as one of its window or as a generic one.
uint64_t InShared(uint64_t address);

inline Actor AccessOf(const Warp& warp, const Inst& inst, int lane) {
  return {{warp.block->shadow.epoch(), warp.time,
           static_cast<uint16_t>(warp.block->Thread(warp, lane)), warp.syncs, inst.line},
          warp.known[lane].get()};
}

}  // namespace ptx
