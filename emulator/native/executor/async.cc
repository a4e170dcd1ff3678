// cp.async: data arrives when a wait says so, as late as the ISA allows.
#include <algorithm>

#include "bulk.h"
#include "lanes.h"
#include "memory.h"

namespace ptx {

void Deliver(Warp& warp, Mask lanes, const uint32_t* limit) {
  Shadow& shadow = warp.block->shadow;
  for (Copy& copy : warp.copies) {
    for (int l = 0; l < kLanes; ++l) {
      if (!(copy.mask & lanes & Mask{1} << l) || copy.group[l] >= limit[l]) continue;
      char* to = warp.block->shared.data() + copy.to[l];
      std::fill(to, to + copy.inst->bytes, 0);
      if (copy.size[l] > 0) std::memcpy(to, copy.from[l], copy.size[l]);
      if (warp.block->launch->device->sanitize) {
        shadow.Finish(copy.to[l], copy.inst->bytes, AccessOf(warp, *copy.inst, l));
      }
      copy.mask &= ~(Mask{1} << l);
    }
  }
  const auto done = [](const Copy& copy) { return copy.mask == 0; };
  warp.copies.erase(std::remove_if(warp.copies.begin(), warp.copies.end(), done),
                    warp.copies.end());
}

namespace {

// Arguments: shared address, global address, bytes to read (if detail says so).
void Issue(Warp& w, const Inst& i, Mask mask) {
  Reached from;
  Copy copy;
  copy.inst = &i;
  Inst address = i;  // its operand is an address of its own, with its own offset and width
  address.wide = static_cast<uint8_t>(i.detail & 15);
  address.offset = i.offset >> 32;
  Addresses(w, address, i.args[0], mask, copy.to);
  address.wide = static_cast<uint8_t>(i.detail >> 4 & 15);
  address.offset = static_cast<int32_t>(i.offset);
  Addresses(w, address, i.args[1], mask, from.address);
  Mask reads = mask;
  for (int l = 0; l < kLanes; ++l) {
    copy.size[l] =
        i.detail >> 8 & 1 ? std::min<uint32_t>(w.At<uint32_t>(i.args[2])[l], i.bytes) : i.bytes;
    if (mask >> l & 1 && copy.size[l] != 0 && copy.size[l] != i.bytes) {
      throw std::runtime_error("cp.async that reads a part of its bytes is not supported");
    }
    if (copy.size[l] == 0) reads &= ~(Mask{1} << l);  // nothing is read: any address will do
    copy.group[l] = w.groups[l];
  }
  from.lanes = 0;
  if (reads != 0) Reach(w, i, Space::kGlobal, i.bytes, reads, Use::kRead, &from);
  Counters& counters = w.block->launch->counters;
  counters.copy_bytes += static_cast<uint64_t>(i.bytes) * __builtin_popcount(reads);
  copy.mask = SharedBounds(w, i, copy.to, i.bytes, mask & (from.lanes | ~reads));
  for (int l = 0; l < kLanes; ++l) {
    if (!(copy.mask >> l & 1)) continue;
    copy.from[l] = from.lanes >> l & 1 ? from.data[l] : nullptr;
    NoteShared(w, i, l, copy.to[l], i.bytes, Note::kBegin);
  }
  if (copy.mask != 0) w.copies.push_back(copy);
}

void Commit(Warp& w, const Inst&, Mask mask) {
  for (int l = 0; l < kLanes; ++l) w.groups[l] += mask >> l & 1;
}

// All groups but the last `detail` committed ones; negative: everything, committed or not.
void Wait(Warp& w, const Inst& i, Mask mask) {
  ++w.block->launch->counters.waits;
  uint32_t limit[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const auto open = static_cast<uint32_t>(i.detail);
    if (i.detail < 0) limit[l] = ++w.groups[l];
    else limit[l] = w.groups[l] > open ? w.groups[l] - open : 0;
  }
  Deliver(w, mask, limit);
}

void DecodeCopy(Decoder& d) {
  const bool all = d.Has("ca");
  if (!all && !d.Has("cg")) d.Unknown();
  if (!d.Has("shared") && !d.Has("shared::cta")) d.Unknown();
  if (!d.Has("global")) d.Unknown();
  for (const char* hint : {"L2::64B", "L2::128B", "L2::256B"}) d.Has(hint);
  d.End();
  if (d.operands() != 3 && d.operands() != 4) d.Unknown();
  const uint64_t bytes = d.Immediate(2);
  if (!(bytes == 16 || (all && (bytes == 4 || bytes == 8)))) d.Unknown();
  d.Address(d.operand(0));
  const int64_t to = d.inst.offset, wide = d.inst.wide;
  d.Address(d.operand(1));
  d.inst.offset = to << 32 | (d.inst.offset & 0xffffffff);
  d.inst.detail = static_cast<int>(wide | d.inst.wide << 4);
  if (d.operands() == 4) {
    d.Push(d.Source(3, Type::kU32));
    d.inst.detail |= 1 << 8;
  }
  d.inst.bytes = static_cast<uint8_t>(bytes);
  d.inst.pipe = kMemory;
  d.inst.run = Issue;
  int& granule = d.builder.kernel().granule;
  granule = std::min<int>(granule, d.inst.bytes);
}

void DecodeAsync(Decoder& d) {
  if (!d.Has("async")) d.Unknown();
  if (d.Has("bulk")) return DecodeBulk(d);
  d.inst.pipe = kControl;
  if (d.Has("commit_group")) {
    d.inst.run = Commit;
    d.Operands(0);
  } else if (d.Has("wait_group")) {
    d.inst.run = Wait;
    d.Operands(1);
    d.inst.detail = static_cast<int>(d.Immediate(0));
  } else if (d.Has("wait_all")) {
    d.inst.run = Wait;
    d.Operands(0);
    d.inst.detail = -1;
  } else {
    return DecodeCopy(d);
  }
  d.End();
}

}  // namespace

void AddAsync(Table* table) { (*table)["cp"] = DecodeAsync; }

}  // namespace ptx
