// Warps that look at memory again and again, until others change it.
#pragma once
#include "machine.h"

namespace ptx {

inline uint64_t Mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15; }

// Places and values that an instruction read.
class Seen {
 public:
  template <class T>
  void Add(const void* place, const T& value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    hash_ = Mixed(Mixed(hash_, reinterpret_cast<uint64_t>(place)), bits);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

// A warp that sees the same again, by the same instruction, lets others run.
inline void Look(Warp& warp, const Inst& inst, const Seen& seen) {
  const uint64_t now = Mixed(seen.hash(), reinterpret_cast<uint64_t>(&inst));
  if (warp.seen == now) {
    warp.state = Warp::kPolling;
    warp.stands = &inst;
    warp.stands_at = kInMemory;
  } else {
    ++warp.block->events;
  }
  warp.seen = now;
}

}  // namespace ptx
