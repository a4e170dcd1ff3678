// Which accesses of other threads come before those of a thread, since the block's last barrier.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace ptx {

// Threads behind the block's own ones stand for copies: one for each mbarrier, whose time is the
// number of its phase.
struct Clock {
  std::vector<uint32_t> before;  // accesses of thread t at times below before[t] are over
  std::vector<uint32_t> fenced;  // those that the asynchronous proxy sees too
};
using Known = std::shared_ptr<const Clock>;  // null: nothing

inline bool Knows(const std::vector<uint32_t>& times, uint32_t thread, uint32_t time) {
  return thread < times.size() && time < times[thread];
}

// Both of two clocks.
Known Joined(const Known& a, const Known& b);

struct Warp;

// What lanes let others know at an arrival; what they do next is not part of it.
Known Released(Warp& warp, uint32_t lanes);

// Lanes learn of what others let them know.
void Acquire(Warp& warp, uint32_t lanes, const Known& known);

// All lanes of a warp wait for each other.
void SyncWarp(Warp& warp);

// What lanes know of is seen by the asynchronous proxy.
void FenceProxy(Warp& warp, uint32_t lanes);

}  // namespace ptx
