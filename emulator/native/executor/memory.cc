#include "memory.h"

#include <algorithm>

namespace ptx {
namespace {

void ReportBounds(Warp& warp, const Inst& inst, int lane, const std::string& where, bool aligned,
                  int bytes) {
  const std::string size = std::to_string(bytes) + " bytes";
  if (aligned) Report(warp, inst, lane, "out of bounds", where, size);
  else Report(warp, inst, lane, "misaligned", where, size + " must be aligned to as many");
}

void ReachShared(Warp& warp, const Inst& inst, int bytes, Mask mask, Use use, Reached* reached) {
  Block& block = *warp.block;
  Counters& counters = block.launch->counters;
  int least;
  counters.shared_passes += Passes(reached->address, bytes, mask, &least);
  counters.shared_least += least;
  counters.shared_bytes += static_cast<uint64_t>(bytes) * __builtin_popcount(mask);
  reached->lanes = SharedBounds(warp, inst, reached->address, bytes, mask);
  const Note note = use == Use::kWrite    ? Note::kWrite
                    : use == Use::kChange ? Note::kChange
                                          : Note::kRead;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(reached->lanes >> lane & 1)) continue;
    reached->data[lane] = block.shared.data() + reached->address[lane];
    NoteShared(warp, inst, lane, reached->address[lane], bytes, note);
  }
}

void ReachGlobal(Warp& warp, const Inst& inst, int bytes, Mask mask, Use use, Reached* reached) {
  Launch& launch = *warp.block->launch;
  const uint64_t total = static_cast<uint64_t>(bytes) * __builtin_popcount(mask);
  const uint64_t sectors = Sectors(reached->address, bytes, mask);
  const bool reads = use != Use::kWrite, writes = use != Use::kRead;
  if (reads) launch.counters.load_bytes += total, launch.counters.load_sectors += sectors;
  if (writes) launch.counters.store_bytes += total, launch.counters.store_sectors += sectors;
  Allocation* last = nullptr;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const uint64_t address = reached->address[lane];
    if (last == nullptr || address - last->base >= last->bytes) last = launch.device->Find(address);
    const bool inside = last != nullptr && address - last->base + bytes <= last->bytes;
    const bool aligned = address % bytes == 0;
    if (!inside || !aligned) {
      ReportBounds(warp, inst, lane, launch.device->Describe(address), aligned || !inside, bytes);
      continue;
    }
    if (reads && !IsWritten(*last, address, bytes)) {
      Report(warp, inst, lane, "uninitialised", launch.device->Describe(address),
             "nobody wrote it");
    }
    if (writes) MarkWritten(last, address, bytes);
    reached->data[lane] = reinterpret_cast<char*>(address);
    reached->lanes |= Mask{1} << lane;
  }
}

void ReachLocal(Warp& warp, const Inst& inst, int bytes, Mask mask, Reached* reached) {
  const uint64_t size = warp.block->launch->kernel->local_bytes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const uint64_t address = reached->address[lane];
    const bool inside = address + bytes <= size, aligned = address % bytes == 0;
    if (!inside || !aligned) {
      ReportBounds(warp, inst, lane, "local memory, byte " + std::to_string(address),
                   aligned || !inside, bytes);
      continue;
    }
    reached->data[lane] = warp.local.data() + lane * size + address;
    reached->lanes |= Mask{1} << lane;
  }
}

// Addresses of a generic access lie in one window or another.
void ReachGeneric(Warp& warp, const Inst& inst, int bytes, Mask mask, Use use, Reached* reached) {
  Mask in[3] = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    uint64_t& address = reached->address[lane];
    const int window = address >= kSharedWindow ? 1 : address >= kLocalWindow ? 2 : 0;
    address -= window == 1 ? kSharedWindow : window == 2 ? kLocalWindow : 0;
    in[window] |= Mask{1} << lane;
  }
  if (in[0]) ReachGlobal(warp, inst, bytes, in[0], use, reached);
  const Mask global = reached->lanes;
  if (in[1]) ReachShared(warp, inst, bytes, in[1], use, reached);
  reached->lanes |= global;
  if (in[2]) ReachLocal(warp, inst, bytes, in[2], reached);
}

}  // namespace

void Addresses(const Warp& warp, const Inst& inst, Place place, Mask mask, uint64_t* address) {
  (void)mask;
  if (inst.wide == 4) {
    const uint32_t* base = warp.At<uint32_t>(place);
    for (int lane = 0; lane < kLanes; ++lane) {
      address[lane] = base[lane] + static_cast<uint32_t>(inst.offset);
      address[lane] &= 0xffffffffu;
    }
  } else {
    const uint64_t* base = warp.At<uint64_t>(place);
    for (int lane = 0; lane < kLanes; ++lane) address[lane] = base[lane] + inst.offset;
  }
}

uint64_t LaneAddress(const Warp& warp, const Inst& inst, int at, int lane) {
  const auto offset = *warp.At<uint64_t>(inst.args[at + 1]);
  if (inst.narrow >> (at / 2) & 1) {
    return static_cast<uint32_t>(warp.At<uint32_t>(inst.args[at])[lane] + offset);
  }
  return warp.At<uint64_t>(inst.args[at])[lane] + offset;
}

uint64_t InShared(uint64_t address) {
  return address >= kSharedWindow ? address - kSharedWindow : address;
}

std::string SharedName(const Warp& warp, uint64_t address) {
  const Kernel& kernel = *warp.block->launch->kernel;
  for (auto found = kernel.shared.rbegin(); found != kernel.shared.rend(); ++found) {
    if (address >= found->offset) {
      return "shared memory " + found->name + ", byte " + std::to_string(address - found->offset);
    }
  }
  return "shared memory, byte " + std::to_string(address);
}

Mask SharedBounds(Warp& warp, const Inst& inst, const uint64_t* address, int bytes, Mask mask) {
  Mask good = 0;
  const uint64_t size = warp.block->shared.size();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const bool inside = address[lane] + bytes <= size, aligned = address[lane] % bytes == 0;
    if (inside && aligned) good |= Mask{1} << lane;
    else ReportBounds(warp, inst, lane, SharedName(warp, address[lane]), aligned || !inside, bytes);
  }
  return good;
}

void NoteShared(Warp& warp, const Inst& inst, int lane, uint64_t address, int bytes, Note note) {
  if (!warp.block->launch->device->sanitize) return;
  Shadow& shadow = warp.block->shadow;
  const Actor access = AccessOf(warp, inst, lane);
  const Trouble found = note == Note::kRead     ? shadow.Read(address, bytes, access)
                        : note == Note::kWrite  ? shadow.Write(address, bytes, access)
                        : note == Note::kChange ? shadow.Change(address, bytes, access)
                        : note == Note::kBegin
                            ? shadow.Begin(address, bytes, access)
                            : shadow.Look(address, bytes, access, note == Note::kLookWrite);
  if (found.fault == Fault::kNone) return;
  const std::string other = " at line " + std::to_string(found.other.line);
  const std::string who = "thread " + std::to_string(found.other.thread) + other;
  switch (found.fault) {
    case Fault::kNone: return;
    case Fault::kUnwritten:
      return Report(warp, inst, lane, "uninitialised", SharedName(warp, address),
                    "nobody wrote it");
    case Fault::kRace:
      return Report(warp, inst, lane, "race", SharedName(warp, address),
                    "with " + who + ", no barrier between");
    case Fault::kUnfinished:
      return Report(warp, inst, lane, "unfinished copy", SharedName(warp, address),
                    "an asynchronous copy of " + who + " is under way");
    case Fault::kOpen:
      return Report(warp, inst, lane, "open group", SharedName(warp, address),
                    "what " + who + " began may still read it");
    case Fault::kProxy:
      return Report(warp, inst, lane, "proxy fence", SharedName(warp, address),
                    "no fence.proxy.async behind the store of " + who);
  }
}

void Reach(Warp& warp, const Inst& inst, Space space, int bytes, Mask mask, Use use,
           Reached* reached) {
  reached->lanes = 0;
  switch (space) {
    case Space::kShared: return ReachShared(warp, inst, bytes, mask, use, reached);
    case Space::kGlobal: return ReachGlobal(warp, inst, bytes, mask, use, reached);
    case Space::kLocal: return ReachLocal(warp, inst, bytes, mask, reached);
    case Space::kGeneric: return ReachGeneric(warp, inst, bytes, mask, use, reached);
    case Space::kConst:
    case Space::kParam: break;
  }
}

}  // namespace ptx
