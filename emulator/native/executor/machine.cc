#include "machine.h"

#include <algorithm>

namespace ptx {

Machine::Machine(Launch* launch) {
  block_.launch = launch;
  const Kernel& kernel = *launch->kernel;
  const uint64_t shared = kernel.shared_bytes + launch->dynamic_shared;
  block_.shared.resize(shared);
  if (launch->device->sanitize) block_.shadow.Resize(shared, kernel.granule, kernel.clocked);
  const uint64_t threads = launch->block.count();
  block_.warps.resize((threads + kLanes - 1) / kLanes);
  for (Warp& warp : block_.warps) {
    warp.registers.resize(kernel.register_bytes);
    warp.base[0] = warp.registers.data();
    warp.base[1] = kernel.constants.data();
    warp.block = &block_;
    warp.index = static_cast<int>(&warp - block_.warps.data());
    warp.local.resize(kernel.local_bytes * kLanes);
  }
}

// What a warp of an earlier block knew and left.
void Machine::Forget(Warp* warp) {
  warp->time = 1;
  for (Known& known : warp->known) known = nullptr;
  warp->stores.clear();
  warp->products.clear();
  warp->product_groups = 0;
  warp->issued = {};
  std::fill(warp->bulk_groups, warp->bulk_groups + kLanes, 0);
  if (block_.launch->kernel->watched) warp->touched.Reset(block_.launch->kernel->register_bytes);
}

void Machine::Start(Extents at) {
  const Launch& launch = *block_.launch;
  const Extents& size = launch.block;
  block_.at = at;
  block_.shadow.NextBlock();
  block_.mbarriers.clear();
  block_.mbarriers_made = 0;
  std::fill(block_.named, block_.named + kNamedBarriers, Named{});
  // Nothing of another block is left to read.
  std::fill(block_.shared.begin(), block_.shared.end(), static_cast<char>(0xff));
  for (Warp& warp : block_.warps) {
    const uint64_t rest = size.count() - static_cast<uint64_t>(warp.index) * kLanes;
    warp.alive = warp.active = rest >= kLanes ? kAll : (Mask{1} << rest) - 1;
    warp.pc = 0;
    warp.join = -1;
    warp.state = Warp::kRunning;
    warp.stack.clear();
    warp.copies.clear();
    std::fill(warp.groups, warp.groups + kLanes, 0);
    if (launch.kernel->clocked) Forget(&warp);
    for (const auto& [special, place] : launch.kernel->specials) {
      uint32_t* lanes = warp.At<uint32_t>(place);
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t thread = static_cast<uint32_t>(warp.index * kLanes + lane);
        const Mask own = Mask{1} << lane;
        const uint32_t values[] = {thread % size.x,
                                   thread / size.x % size.y,
                                   thread / size.x / size.y,
                                   size.x,
                                   size.y,
                                   size.z,
                                   at.x,
                                   at.y,
                                   at.z,
                                   launch.grid.x,
                                   launch.grid.y,
                                   launch.grid.z,
                                   static_cast<uint32_t>(lane),
                                   static_cast<uint32_t>(warp.index),
                                   own,
                                   own - 1,
                                   own | (own - 1),
                                   ~(own | (own - 1)),
                                   ~(own - 1),
                                   static_cast<uint32_t>(launch.dynamic_shared),
                                   0,
                                   1};
        lanes[lane] = values[static_cast<int>(special)];
      }
    }
  }
}

void Machine::RunBlock(Extents at) {
  constexpr int kPatience = 1000;  // turns in which nothing happened that a warp may wait for
  Start(at);
  ++block_.launch->counters.blocks;
  bool left = true;
  for (int idle = 0; left && idle < kPatience; ++idle) {
    const uint64_t events = block_.events;
    bool moved = false;
    for (Warp& warp : block_.warps) {
      if (warp.state == Warp::kPolling) warp.state = Warp::kRunning;
      if (warp.state != Warp::kRunning) continue;
      moved = true;
      RunWarp(&warp);
    }
    Release();
    const auto lives = [](const Warp& warp) { return warp.state != Warp::kDone; };
    left = std::any_of(block_.warps.begin(), block_.warps.end(), lives);
    if (events != block_.events) idle = 0;
    else if (!moved) idle = kPatience;
  }
  if (left) ReportDeadlock(block_);
  else if (block_.launch->kernel->watched) ReportUnlike(block_);
}

void Machine::RunWarp(Warp* warp) {
  const std::vector<Inst>& code = block_.launch->kernel->code;
  const int end = static_cast<int>(code.size());
  while (warp->state == Warp::kRunning) {
    if (warp->pc >= end) Exit(warp, warp->active);
    else Step(warp, code[warp->pc]);
    if (warp->state != Warp::kDone && warp->pc == warp->join) Meet(warp);
  }
}

void Machine::Step(Warp* warp, const Inst& inst) {
  Mask mask = warp->active;
  if (inst.guard != kNowhere) {
    const Mask guard = *warp->At<Mask>(inst.guard);
    mask &= inst.negated ? ~guard : guard;
  }
  Counters& counters = block_.launch->counters;
  ++counters.warps[inst.pipe];
  counters.lanes[inst.pipe] += __builtin_popcount(mask);
  switch (inst.flow) {
    case Flow::kNext:
      ++warp->pc;
      if (mask == 0) break;
      if (!warp->touched.results.empty()) CheckRegisters(*warp, inst);
      inst.run(*warp, inst, mask);
      break;
    case Flow::kBranch: BranchTo(warp, inst, mask); break;
    case Flow::kReturn:
      ++warp->pc;
      Exit(warp, mask);
      break;
    case Flow::kBarrier:
      ++warp->pc;
      if (mask != 0) Barrier(warp, inst, mask);
  }
}

void Machine::BranchTo(Warp* warp, const Inst& inst, Mask taken) {
  const Mask rest = warp->active & ~taken;
  const int next = warp->pc + 1;
  if (taken == 0 || rest == 0) {
    warp->pc = taken == 0 ? next : inst.target;
    return;
  }
  ++block_.launch->counters.divergent;
  // Where they meet again all go on, unless that is where these lanes were to meet anyhow.
  if (inst.join != warp->join) warp->stack.push_back({inst.join, warp->active, warp->join});
  if (next != inst.join) warp->stack.push_back({next, rest, inst.join});
  warp->active = taken;
  warp->pc = inst.target;
  warp->join = inst.join;
}

// Lanes that came to where others are to join them: go on with those others.
void Machine::Meet(Warp* warp) {
  while (warp->pc == warp->join || (warp->active & warp->alive) == 0) {
    if (warp->stack.empty()) return End(warp);
    const Branch top = warp->stack.back();
    warp->stack.pop_back();
    warp->pc = top.pc;
    warp->join = top.join;
    warp->active = top.mask & warp->alive;
  }
}

void Machine::End(Warp* warp) {
  warp->state = Warp::kDone;
  ++block_.events;
  ReportLeft(*warp);
}

void Machine::Exit(Warp* warp, Mask lanes) {
  warp->alive &= ~lanes;
  warp->active &= ~lanes;
  if (warp->alive == 0) End(warp);
  else if (warp->active == 0) Meet(warp);
}

}  // namespace ptx
