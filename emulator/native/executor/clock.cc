#include "clock.h"

#include <algorithm>

#include "machine.h"

namespace ptx {
namespace {

void Raise(std::vector<uint32_t>* to, const std::vector<uint32_t>& from) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] = std::max((*to)[i], from[i]);
}

Known OfLanes(const Warp& warp, Mask lanes) {
  Known joined;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lanes >> lane & 1) joined = Joined(joined, warp.known[lane]);
  }
  return joined;
}

// Accesses of `lanes` until now.
void Mark(const Warp& warp, Mask lanes, std::vector<uint32_t>* times) {
  const size_t end = static_cast<size_t>(warp.index + 1) * kLanes;
  if (times->size() < end) times->resize(end);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lanes >> lane & 1) (*times)[warp.index * kLanes + lane] = warp.time + 1;
  }
}

std::shared_ptr<Clock> Copied(const Known& known) {
  return known ? std::make_shared<Clock>(*known) : std::make_shared<Clock>();
}

}  // namespace

Known Joined(const Known& a, const Known& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  const auto made = Copied(a);
  Raise(&made->before, b->before);
  Raise(&made->fenced, b->fenced);
  return made;
}

Known Released(Warp& warp, Mask lanes) {
  const auto made = Copied(OfLanes(warp, lanes));
  Mark(warp, lanes, &made->before);
  ++warp.time;
  return made;
}

void Acquire(Warp& warp, Mask lanes, const Known& known) {
  Known old, joined;  // lanes mostly know the same
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    if (joined == nullptr || warp.known[lane] != old) {
      old = warp.known[lane];
      joined = Joined(old, known);
    }
    warp.known[lane] = joined;
  }
}

void SyncWarp(Warp& warp) {
  ++warp.syncs;
  if (!warp.block->launch->kernel->clocked) return;
  const Known all = Released(warp, warp.alive);
  for (Known& known : warp.known) known = all;
}

void FenceProxy(Warp& warp, Mask lanes) {
  const auto made = Copied(OfLanes(warp, lanes));
  Raise(&made->fenced, made->before);
  Mark(warp, lanes, &made->fenced);
  ++warp.time;
  const Known known = made;
  Acquire(warp, lanes, known);
}

}  // namespace ptx
