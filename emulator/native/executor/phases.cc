// When a phase of a mbarrier ends, and who knows: copies come as late as that allows.
#include <algorithm>

#include "mbarrier.h"
#include "memory.h"

namespace ptx {
namespace {

constexpr int kUnit = 16;

// The thread that stands for the copies of a mbarrier.
uint32_t Engine(const Block& block, const MBarrier& barrier) {
  return static_cast<uint32_t>(block.warps.size()) * kLanes + barrier.index;
}

void Deliver(Block& block, const MBarrier& barrier, const BulkCopy& copy) {
  const Access access{block.shadow.epoch(), barrier.phase,
                      static_cast<uint16_t>(Engine(block, barrier)), 0, copy.inst->line};
  for (const Piece& piece : copy.pieces) {
    char* to = block.shared.data() + piece.shared;
    if (piece.global == nullptr) std::fill(to, to + piece.bytes, 0);
    else std::memcpy(to, piece.global, piece.bytes);
    if (block.launch->device->sanitize)
      block.shadow.Fill(piece.shared, static_cast<int>(piece.bytes), access);
  }
}

// Whether a phase may end by copies that are under way.
bool MayEnd(const MBarrier& barrier) {
  return barrier.pending == 0 && barrier.bytes == barrier.under_way;
}

// Whether a lane must know that the last phase is over. Others may be late: what they ask for the
// first time is not over yet.
bool MustKnow(const Warp& w, int lane, const MBarrier& barrier) {
  if (barrier.known == nullptr) return true;
  const std::vector<uint32_t>& all = barrier.known->before;
  const auto self = static_cast<size_t>(w.block->Thread(w, lane));
  for (size_t t = 0; t < all.size(); ++t) {
    const bool known = w.known[lane] != nullptr && t < w.known[lane]->before.size() &&
                       all[t] <= w.known[lane]->before[t];
    if (all[t] > 0 && t != self && !known) return false;
  }
  return true;
}

}  // namespace

void Settle(Block& block, MBarrier* barrier, bool asked) {
  if (!MayEnd(*barrier)) return;
  if (!asked && !barrier->copies.empty()) return;
  const auto known = std::make_shared<Clock>();
  for (const BulkCopy& copy : barrier->copies) Deliver(block, *barrier, copy);
  if (!barrier->copies.empty()) {
    known->before.resize(Engine(block, *barrier) + 1);
    known->before.back() = barrier->phase + 1;
  }
  barrier->known = Joined(barrier->known, Joined(barrier->gathered, known));
  barrier->gathered = nullptr;
  barrier->copies.clear();
  barrier->bytes = barrier->under_way = 0;
  barrier->pending = barrier->count;
  ++barrier->phase;
  ++block.events;
}

bool ReachMBarrier(Warp& w, const Inst& i, int lane, uint64_t address, Note note) {
  uint64_t addresses[kLanes] = {};
  addresses[lane] = address;
  if (SharedBounds(w, i, addresses, kMBarrierBytes, Mask{1} << lane) == 0) return false;
  NoteShared(w, i, lane, address, kMBarrierBytes, note);
  return true;
}

MBarrier* FindMBarrier(Warp& warp, const Inst& inst, int lane, uint64_t address) {
  const auto found = warp.block->mbarriers.find(address);
  if (found != warp.block->mbarriers.end()) return &found->second;
  Report(warp, inst, lane, "mbarrier", SharedName(warp, address), "no mbarrier.init made one here");
  return nullptr;
}

void BeginCopy(Warp& warp, const Inst& inst, int lane, uint64_t mbarrier,
               const std::vector<Piece>& pieces) {
  Block& block = *warp.block;
  if (!ReachMBarrier(warp, inst, lane, mbarrier, Note::kLookRead)) return;
  MBarrier* barrier = FindMBarrier(warp, inst, lane, mbarrier);
  if (barrier == nullptr) return;
  Settle(block, barrier, true);
  const Actor access = AccessOf(warp, inst, lane);
  for (const Piece& piece : pieces) {
    const int bytes = static_cast<int>(piece.bytes);
    barrier->under_way += bytes;
    if (piece.shared % kUnit != 0) continue;  // a part of what another piece begins
    const int whole = (bytes + kUnit - 1) / kUnit * kUnit;
    NoteShared(warp, inst, lane, piece.shared, whole, Note::kLookWrite);
    if (block.launch->device->sanitize) block.shadow.Begin(piece.shared, whole, access);
  }
  barrier->copies.push_back({&inst, pieces});
  ++block.events;
}

bool IsOver(Warp& w, int lane, MBarrier* barrier, uint64_t named, bool parity) {
  const auto current = [&] {
    return parity ? (barrier->phase & 1) == named : barrier->phase == named;
  };
  Settle(*w.block, barrier, false);
  const bool ends = current() && MayEnd(*barrier);
  if (current() && !ends) return false;
  const uint32_t phases = barrier->phase + ends;
  barrier->asked.resize(w.block->warps.size());
  uint32_t& asked = barrier->asked[static_cast<size_t>(w.index)];
  const bool first = asked != phases;
  asked = phases;
  if (first && (ends || !MustKnow(w, lane, *barrier))) {
    ++w.block->events;
    return false;
  }
  if (ends) Settle(*w.block, barrier, true);
  return true;
}

}  // namespace ptx
