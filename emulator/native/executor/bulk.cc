// cp.async.bulk: pieces of memory that one thread asks for.
#include "bulk.h"

#include <algorithm>

#include "lanes.h"

namespace ptx {

namespace {

constexpr uint32_t kUnit = 16;

void ReportRange(Warp& warp, const Inst& inst, int lane, bool inside, const std::string& where,
                 uint32_t bytes, uint32_t align) {
  if (!inside)
    return Report(warp, inst, lane, "out of bounds", where, std::to_string(bytes) + " bytes");
  Report(warp, inst, lane, "misaligned", where,
         "a bulk copy's addresses and bytes are multiples of " + std::to_string(align));
}

}  // namespace

bool SharedRange(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t bytes,
                 uint32_t align) {
  const bool inside = address + bytes <= warp.block->shared.size();
  const bool aligned = address % align == 0 && bytes % kUnit == 0;
  if (inside && aligned) return true;
  ReportRange(warp, inst, lane, inside, SharedName(warp, address), bytes, align);
  return false;
}

bool GlobalRange(Warp& warp, const Inst& inst, int lane, uint64_t address, uint32_t bytes, Use use,
                 uint32_t align) {
  Device& device = *warp.block->launch->device;
  Allocation* found = device.Find(address);
  const bool inside = found != nullptr && address - found->base + bytes <= found->bytes;
  if (!inside || address % align != 0 || bytes % align != 0) {
    ReportRange(warp, inst, lane, inside, device.Describe(address), bytes, align);
    return false;
  }
  Counters& counters = warp.block->launch->counters;
  constexpr int kSector = 32;
  const uint64_t sectors = (address + bytes + kSector - 1) / kSector - address / kSector;
  if (use == Use::kWrite) {
    counters.store_bytes += bytes;
    counters.store_sectors += sectors;
    return true;
  }
  counters.load_bytes += bytes;
  counters.copy_bytes += bytes;
  counters.load_sectors += sectors;
  if (!IsWritten(*found, address, bytes))
    Report(warp, inst, lane, "uninitialised", device.Describe(address), "nobody wrote it");
  return true;
}

void BeginStore(Warp& warp, const Inst& inst, int lane, uint64_t from, uint32_t bytes,
                const std::vector<Piece>& pieces, Combine combine) {
  NoteShared(warp, inst, lane, from, static_cast<int>(bytes), Note::kLookRead);
  if (warp.block->launch->device->sanitize)
    warp.block->shadow.Open(from, static_cast<int>(bytes), AccessOf(warp, inst, lane));
  warp.stores.push_back({&inst, lane, warp.bulk_groups[lane], from, bytes, pieces, combine});
}

void DeliverStores(Warp& warp, Mask lanes, const uint32_t* limit) {
  Block& block = *warp.block;
  Device& device = *block.launch->device;
  const auto over = [&](const BulkStore& store) {
    if (!(lanes >> store.lane & 1) || store.group >= limit[store.lane]) return false;
    for (const Piece& piece : store.pieces) {
      if (piece.global == nullptr) continue;
      const auto to = reinterpret_cast<uint64_t>(piece.global);
      const char* from = block.shared.data() + piece.shared;
      if (store.combine != nullptr) store.combine(piece.global, from, piece.bytes);
      else std::memcpy(piece.global, from, piece.bytes);
      MarkWritten(device.Find(to), to, piece.bytes);
    }
    if (device.sanitize)
      block.shadow.Close(store.from, static_cast<int>(store.bytes),
                         AccessOf(warp, *store.inst, store.lane));
    return true;
  };
  warp.stores.erase(std::remove_if(warp.stores.begin(), warp.stores.end(), over),
                    warp.stores.end());
}

namespace {

// Arguments: shared address (2), global address (2), mbarrier (2), bytes.
void ToShared(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t to = InShared(LaneAddress(w, i, 0, l)), from = LaneAddress(w, i, 2, l);
    const uint32_t bytes = w.At<uint32_t>(i.args[6])[l];
    const bool good = SharedRange(w, i, l, to, bytes, kUnit);
    if (!GlobalRange(w, i, l, from, bytes, Use::kRead) || !good) continue;
    const Piece piece{to, reinterpret_cast<char*>(from), bytes};
    BeginCopy(w, i, l, InShared(LaneAddress(w, i, 4, l)), {piece});
  }
}

// Arguments: global address (2), shared address (2), bytes.
void ToGlobal(Warp& w, const Inst& i, Mask mask) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    const uint64_t to = LaneAddress(w, i, 0, l), from = InShared(LaneAddress(w, i, 2, l));
    const uint32_t bytes = w.At<uint32_t>(i.args[4])[l];
    const bool good = SharedRange(w, i, l, from, bytes, kUnit);
    if (!GlobalRange(w, i, l, to, bytes, Use::kWrite) || !good) continue;
    const auto combine = BitCast<Combine>(i.offset);
    if (combine != nullptr) GlobalRange(w, i, l, to, bytes, Use::kRead);
    BeginStore(w, i, l, from, bytes, {{from, reinterpret_cast<char*>(to), bytes}}, combine);
  }
}

void Commit(Warp& w, const Inst&, Mask mask) {
  for (int l = 0; l < kLanes; ++l) w.bulk_groups[l] += mask >> l & 1;
}

void Wait(Warp& w, const Inst& i, Mask mask) {
  ++w.block->launch->counters.waits;
  const auto open = static_cast<uint32_t>(i.detail);
  uint32_t limit[kLanes];
  for (int l = 0; l < kLanes; ++l) limit[l] = w.bulk_groups[l] > open ? w.bulk_groups[l] - open : 0;
  DeliverStores(w, mask, limit);
}

// A hint of what to keep in the cache changes nothing.
void SkipCachePolicy(Decoder& d, size_t operands, bool hint) {
  d.End();
  d.Operands(operands + hint);
  if (hint) d.Source(operands, Type::kB64);
}

void DecodeToShared(Decoder& d) {
  if (!d.Has("shared::cluster") && !d.Has("shared::cta")) d.Unknown();
  if (!d.Has("global") || !d.Has("mbarrier::complete_tx::bytes")) d.Unknown();
  SkipCachePolicy(d, 4, d.Has("L2::cache_hint"));
  d.NextAddress(d.operand(0));
  d.NextAddress(d.operand(1));
  d.NextAddress(d.operand(3));
  d.Push(d.Source(2, Type::kU32));
  d.inst.run = ToShared;
}

void DecodeToGlobal(Decoder& d) {
  if (!d.Has("global") || !d.Has("shared::cta")) d.Unknown();
  const bool hint = d.Has("L2::cache_hint");
  const Combine combine = d.Has("reduce") ? TakeCombine(d) : nullptr;
  SkipCachePolicy(d, 3, hint);
  d.NextAddress(d.operand(0));
  d.NextAddress(d.operand(1));
  d.Push(d.Source(2, Type::kU32));
  d.inst.offset = BitCast<int64_t>(combine);
  d.inst.run = ToGlobal;
}

}  // namespace

void DecodeBulk(Decoder& d) {
  Kernel& kernel = d.builder.kernel();
  kernel.clocked = true;
  d.inst.pipe = kMemory;
  if (d.Has("tensor")) return DecodeTensor(d);
  if (d.Has("commit_group")) {
    d.End();
    d.Operands(0);
    d.inst.run = Commit;
  } else if (d.Has("wait_group")) {
    d.Has("read");
    d.End();
    d.Operands(1);
    d.inst.detail = static_cast<int>(d.Immediate(0));
    d.inst.run = Wait;
  } else if (d.Has("bulk_group")) {
    DecodeToGlobal(d);
  } else {
    DecodeToShared(d);
  }
}

}  // namespace ptx
