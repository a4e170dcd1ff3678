// mbarrier: init, inval, arrivals, bytes, waits.
#include "mbarrier.h"

#include <algorithm>

#include "lanes.h"
#include "memory.h"

namespace ptx {
namespace {

constexpr int64_t kMostBytes = (1 << 20) - 1;

// Arguments: address (2), number of arrivals.
void Init(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t address = InShared(LaneAddress(w, i, 0, l));
    if (!ReachMBarrier(w, i, l, address, Note::kWrite)) continue;
    const uint32_t count = w.At<uint32_t>(i.args[2])[l];
    auto& all = w.block->mbarriers;
    if (all.count(address))
      Report(w, i, l, "mbarrier", SharedName(w, address), "there is one, without mbarrier.inval");
    if (count == 0 || count > kMostBytes)
      Report(w, i, l, "mbarrier", SharedName(w, address), "it counts 1 to 1048575 arrivals");
    all[address] = MBarrier{};
    all[address].index = w.block->mbarriers_made++;
    all[address].count = all[address].pending = count;
  }
}

void Invalidate(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t address = InShared(LaneAddress(w, i, 0, l));
    if (!ReachMBarrier(w, i, l, address, Note::kWrite)) continue;
    const MBarrier* barrier = FindMBarrier(w, i, l, address);
    if (barrier == nullptr) continue;
    if (!barrier->copies.empty())
      Report(w, i, l, "unfinished copy", SharedName(w, address), "its bytes are still expected");
    w.block->mbarriers.erase(address);
  }
}

enum Change { kArrives = 1, kDrops = 2, kExpects = 4, kCompletes = 8, kRelaxed = 16 };

void Count(Warp& w, const Inst& i, int lane, uint64_t address, MBarrier* barrier) {
  const int64_t bytes = w.At<uint32_t>(i.args[3])[lane];
  if (i.detail & kExpects) barrier->bytes += bytes;
  if (i.detail & kCompletes) barrier->bytes -= bytes;
  if (barrier->bytes > kMostBytes || barrier->bytes < -kMostBytes)
    Report(w, i, lane, "byte count", SharedName(w, address),
           "a phase counts at most 1048575 bytes");
  if (!(i.detail & kArrives)) return;
  const uint32_t count = w.At<uint32_t>(i.args[2])[lane];
  if (count > barrier->pending) {
    Report(w, i, lane, "mbarrier", SharedName(w, address),
           "more arrivals than the " + std::to_string(barrier->count) + " of a phase");
  }
  barrier->pending -= std::min(count, barrier->pending);
  if (i.detail & kDrops) barrier->count -= std::min(count, barrier->count);
}

// Arguments: address (2), arrivals, bytes, state or nowhere.
void Update(Warp& w, const Inst& i, Mask mask) {
  Mask arrived = 0;  // lanes whose arrival at one mbarrier and phase is not told yet
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t address = InShared(LaneAddress(w, i, 0, l));
    if (!ReachMBarrier(w, i, l, address, Note::kRead)) continue;
    MBarrier* barrier = FindMBarrier(w, i, l, address);
    if (barrier == nullptr) continue;
    Settle(*w.block, barrier, true);
    if (i.args[4] != kNowhere) w.At<uint64_t>(i.args[4])[l] = barrier->phase;
    Count(w, i, l, address, barrier);
    if (i.detail & kArrives) arrived |= Mask{1} << l;
    const int next =
        l + 1 < kLanes && mask >> (l + 1) != 0 ? __builtin_ctz(mask >> (l + 1)) + l + 1 : l;
    const bool together = next != l && InShared(LaneAddress(w, i, 0, next)) == address;
    if (together && barrier->pending > 0) continue;
    if (arrived != 0 && !(i.detail & kRelaxed))
      barrier->gathered = Joined(barrier->gathered, Released(w, arrived));
    arrived = 0;
    ++w.block->events;
    Settle(*w.block, barrier, false);
  }
}

enum Test { kParity = 1, kUnordered = 2 };

// Arguments: address (2), predicate, parity or state.
void Wait(Warp& w, const Inst& i, Mask mask) {
  Mask over = 0;
  ++w.block->launch->counters.waits;
  uint64_t last_address = ~uint64_t{0}, last_named = 0;
  bool last = false;  // lanes that ask the same get the same answer
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t address = InShared(LaneAddress(w, i, 0, l));
    const uint64_t named =
        i.detail & kParity ? w.At<uint32_t>(i.args[3])[l] : w.At<uint64_t>(i.args[3])[l];
    const bool there = ReachMBarrier(w, i, l, address, Note::kRead);
    MBarrier* barrier = there ? FindMBarrier(w, i, l, address) : nullptr;
    if (barrier == nullptr) last = false;  // nothing will ever come
    else if (address != last_address || named != last_named)
      last = IsOver(w, l, barrier, named, i.detail & kParity);
    last_address = address;
    last_named = named;
    if (last) {
      over |= Mask{1} << l;
      if (!(i.detail & kUnordered)) Acquire(w, Mask{1} << l, barrier->known);
      continue;
    }
    w.state = Warp::kPolling;
    w.stands = &i;
    w.stands_at = address;
  }
  Mask* p = w.At<Mask>(i.args[2]);
  *p = (*p & ~mask) | over;
}

// Who else sees it: thread blocks of a cluster are not executed together.
bool TakeOrder(Decoder& d) {
  const bool relaxed = d.Has("relaxed");
  for (const char* word : {"acquire", "release", "cta", "cluster"}) d.Has(word);
  for (const char* space : {"shared", "shared::cta", "shared::cluster"}) d.Has(space);
  if (!d.Has("b64")) d.Unknown();
  return relaxed;
}

void DecodeWait(Decoder& d) {
  if (d.Has("parity")) d.inst.detail |= kParity;
  if (TakeOrder(d)) d.inst.detail |= kUnordered;
  d.End();
  if (d.operands() != 3 && d.operands() != 4) d.Unknown();  // the last: a hint of time
  d.NextAddress(d.operand(1));
  d.Push(d.PredicateTarget(d.operand(0).name));
  d.Push(d.Source(2, d.inst.detail & kParity ? Type::kU32 : Type::kB64));
  d.inst.run = Wait;
}

void DecodeUpdate(Decoder& d) {
  if (d.Has("expect_tx")) d.inst.detail |= kExpects;
  d.Has("noComplete");
  if (TakeOrder(d)) d.inst.detail |= kRelaxed;
  d.End();
  const bool arrives = d.inst.detail & kArrives, counts = d.inst.detail & (kExpects | kCompletes);
  const size_t at = arrives && d.operand(0).kind != Operand::kAddress ? 1 : 0;
  if (d.operands() < at + 1 || d.operands() > at + 2) d.Unknown();
  if (counts && d.operands() != at + 2) d.Unknown();
  d.NextAddress(d.operand(at));
  const Place one = d.builder.Constant(1, 4), none = d.builder.Constant(0, 4);
  const bool more = d.operands() == at + 2;
  d.Push(more && !counts ? d.Source(at + 1, Type::kU32) : one);
  d.Push(more && counts ? d.Source(at + 1, Type::kU32) : none);
  d.Push(at == 1 && d.operand(0).name != "_" ? d.Target(d.operand(0), Type::kB64) : kNowhere);
  d.inst.run = Update;
}

void DecodePlain(Decoder& d, Run run, size_t operands) {
  TakeOrder(d);
  d.End();
  d.Operands(operands);
  d.NextAddress(d.operand(0));
  if (operands == 2) d.Push(d.Source(1, Type::kU32));
  d.inst.run = run;
}

void DecodeMBarrier(Decoder& d) {
  Kernel& kernel = d.builder.kernel();
  kernel.clocked = true;
  kernel.granule = std::min(kernel.granule, kMBarrierBytes);
  d.inst.pipe = kMemory;
  if (d.Has("init")) return DecodePlain(d, Init, 2);
  if (d.Has("inval")) return DecodePlain(d, Invalidate, 1);
  if (d.Has("try_wait") || d.Has("test_wait")) return DecodeWait(d);
  if (d.Has("arrive")) d.inst.detail = kArrives;
  else if (d.Has("arrive_drop")) d.inst.detail = kArrives | kDrops;
  else if (d.Has("complete_tx")) d.inst.detail = kCompletes;
  DecodeUpdate(d);
  if (d.inst.detail == 0) d.Unknown();
}

}  // namespace

void AddMbarriers(Table* table) { (*table)["mbarrier"] = DecodeMBarrier; }

}  // namespace ptx
