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

inline uint64_t HashOf(const std::vector<char>& bytes) {
  uint64_t hash = bytes.size();
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = Mixed(hash, word);
  }
  return hash;
}

// A warp that sees the same again, by the same instruction and with the same registers, would do
// so for ever: it lets others run.
inline void Look(Warp& warp, const Inst& inst, const Seen& seen) {
  const uint64_t now = Mixed(seen.hash(), reinterpret_cast<uint64_t>(&inst));
  const bool again = warp.seen == now;
  const uint64_t own = again ? Mixed(HashOf(warp.registers), HashOf(warp.local)) : 0;
  if (again && own == warp.own) {
    warp.state = Warp::kPolling;
    warp.stands = &inst;
    warp.stands_at = kInMemory;
  } else {
    ++warp.block->events;
  }
  warp.seen = now;
  warp.own = own;
}

}  // namespace ptx
