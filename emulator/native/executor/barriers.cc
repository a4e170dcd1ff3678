// Barriers of a thread block: that of all its threads, and numbered ones with a count.
#include "machine.h"
#include "memory.h"

namespace ptx {
namespace {

void ExpectTogether(Warp& warp, const Inst& inst, Mask lanes) {
  const Mask missing = warp.alive & ~lanes;
  if (missing == 0) return;
  Report(warp, inst, __builtin_ctz(missing), "barrier divergence", "",
         "lanes of its warp wait at this barrier without it");
}

// All warps know what all knew.
void SyncBlock(Block& block) {
  Known all;
  for (Warp& warp : block.warps) all = Joined(all, Released(warp, kAll));
  for (Warp& warp : block.warps) {
    for (Known& known : warp.known) known = all;
  }
}

}  // namespace

void Machine::Barrier(Warp* warp, const Inst& inst, Mask lanes) {
  ++block_.launch->counters.barriers;
  ++block_.events;
  ExpectTogether(*warp, inst, lanes);
  if (inst.detail != kOfBlock) return Arrive(warp, inst, lanes);
  if (block_.barrier != nullptr && block_.barrier != &inst) {
    Report(*warp, inst, __builtin_ctz(lanes), "barrier divergence", "",
           "other warps wait at line " + std::to_string(block_.barrier->line));
  }
  block_.barrier = &inst;
  warp->stands = &inst;
  warp->state = Warp::kWaiting;
}

// At a numbered barrier; whole warps are counted.
void Machine::Arrive(Warp* warp, const Inst& inst, Mask lanes) {
  const int lane = __builtin_ctz(lanes);
  const uint32_t number = warp->At<uint32_t>(inst.args[0])[lane];
  const uint32_t all = static_cast<uint32_t>(block_.warps.size()) * kLanes;
  const uint32_t count = inst.args[1] == kNowhere ? all : warp->At<uint32_t>(inst.args[1])[lane];
  if (number >= kNamedBarriers || count == 0 || count % kLanes != 0)
    throw std::runtime_error("PTX line " + std::to_string(inst.line) + ": barrier " +
                             std::to_string(number) + " of " + std::to_string(count) + " threads");
  Named& named = block_.named[number];
  if (named.arrived > 0 && named.expected != count) {
    Report(*warp, inst, lane, "barrier divergence", "",
           "others expect " + std::to_string(named.expected) + " threads");
  }
  named.expected = count;
  named.arrived += kLanes;
  named.gathered = Joined(named.gathered, Released(*warp, warp->alive));
  if (inst.detail == kNumbered) {
    warp->state = Warp::kNamed;
    warp->stands = &inst;
    warp->stands_at = number;
  }
  if (named.arrived < count) return;
  for (Warp& other : block_.warps) {
    if (other.state != Warp::kNamed || other.stands_at != number) continue;
    other.state = Warp::kRunning;
    ++other.syncs;
    Acquire(other, kAll, named.gathered);
  }
  named = Named{};
}

// The block's barrier opens if all warps wait at it or have ended.
void Machine::Release() {
  if (block_.barrier == nullptr) return;
  for (const Warp& warp : block_.warps) {
    if (warp.state != Warp::kWaiting && warp.state != Warp::kDone) return;
  }
  for (Warp& warp : block_.warps) {
    const uint64_t threads =
        block_.launch->block.count() - static_cast<uint64_t>(warp.index) * kLanes;
    const Mask all = threads >= kLanes ? kAll : (Mask{1} << threads) - 1;
    if (warp.alive != all) {
      Report(warp, *block_.barrier, __builtin_ctz(all & ~warp.alive), "barrier divergence", "",
             "the thread has ended while others wait at this barrier");
    }
    if (warp.state == Warp::kWaiting) warp.state = Warp::kRunning;
  }
  block_.barrier = nullptr;
  block_.shadow.NextEpoch();
  ++block_.events;
  if (block_.launch->kernel->clocked) SyncBlock(block_);
}

namespace {

void ReportPhase(Warp& warp, uint64_t address) {
  const auto found = warp.block->mbarriers.find(address);
  if (found == warp.block->mbarriers.end()) return;
  const MBarrier& barrier = found->second;
  const std::string phase = "phase " + std::to_string(barrier.phase) + " lacks ";
  const int lane = __builtin_ctz(warp.active);
  if (barrier.pending > 0) {
    return Report(warp, *warp.stands, lane, "deadlock", SharedName(warp, address),
                  phase + std::to_string(barrier.pending) + " of " + std::to_string(barrier.count) +
                      " arrivals");
  }
  if (barrier.bytes == barrier.under_way) {  // its last test was of another phase
    return Report(warp, *warp.stands, lane, "deadlock", SharedName(warp, address),
                  "nobody waits for phase " + std::to_string(barrier.phase));
  }
  Report(warp, *warp.stands, lane, "byte count", SharedName(warp, address),
         phase + std::to_string(barrier.bytes - barrier.under_way) + " bytes: copies bring " +
             std::to_string(barrier.under_way));
}

}  // namespace

void ReportDeadlock(Block& block) {
  for (Warp& warp : block.warps) {
    if (warp.state == Warp::kDone || warp.stands == nullptr) continue;
    if (warp.state == Warp::kPolling && warp.stands_at == kInMemory) {
      Report(warp, *warp.stands, __builtin_ctz(warp.active), "deadlock", "",
             "nobody changes what it waits for");
      continue;
    }
    if (warp.state == Warp::kPolling) {
      ReportPhase(warp, warp.stands_at);
      continue;
    }
    const Named& named = block.named[warp.stands_at % kNamedBarriers];
    const std::string lacks = std::to_string(named.arrived) + " of " +
                              std::to_string(named.expected) + " threads have come";
    Report(warp, *warp.stands, __builtin_ctz(warp.active), "deadlock", "",
           warp.state == Warp::kNamed ? lacks : "others never come to this barrier");
  }
}

}  // namespace ptx
