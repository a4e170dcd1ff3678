#include "shadow.h"

namespace ptx {

constexpr int kWarp = 32;

void Shadow::Resize(uint64_t bytes, int granule) {
  granule_ = granule;
  cells_.assign((bytes + granule - 1) / granule, Cell{});
}

// Whether an access of this epoch comes before another: same thread, or a barrier of their warp.
bool Shadow::Ordered(const Access& before, const Access& access) const {
  if (before.epoch != access.epoch || before.thread == access.thread) return true;
  return before.thread / kWarp == access.thread / kWarp && before.sync != access.sync;
}

Trouble Shadow::Conflict(const Cell& cell, const Access& access, bool writes) const {
  if (cell.pending == first_) return {Fault::kUnfinished, cell.write};
  if (cell.write.epoch >= first_ && !Ordered(cell.write, access)) return {Fault::kRace, cell.write};
  if (!writes || cell.read.epoch != access.epoch) return {};
  const bool same_warp = cell.read.thread / kWarp == access.thread / kWarp;
  const bool synced = same_warp && cell.read.sync != access.sync;
  const bool others =
      cell.warps || !same_warp || (!synced && (cell.threads || cell.read.thread != access.thread));
  return others ? Trouble{Fault::kRace, cell.read} : Trouble{};
}

Trouble Shadow::Read(uint64_t address, int bytes, Access access) {
  Trouble trouble;
  for (uint64_t i = address / granule_; i < (address + bytes + granule_ - 1) / granule_; ++i) {
    Cell& cell = cells_[i];
    const Trouble found = Conflict(cell, access, false);
    if (found.fault != Fault::kNone) trouble = found;
    else if (cell.write.epoch < first_) trouble = {Fault::kUnwritten, {}};
    if (cell.read.epoch == access.epoch) {
      const bool same_warp = cell.read.thread / kWarp == access.thread / kWarp;
      cell.warps = cell.warps || !same_warp;
      cell.threads =
          (cell.threads && cell.read.sync == access.sync) ||
          (same_warp && cell.read.sync == access.sync && cell.read.thread != access.thread);
    } else {
      cell.warps = cell.threads = false;
    }
    cell.read = access;
  }
  return trouble;
}

Trouble Shadow::Write(uint64_t address, int bytes, Access access) {
  Trouble trouble;
  for (uint64_t i = address / granule_; i < (address + bytes + granule_ - 1) / granule_; ++i) {
    Cell& cell = cells_[i];
    const Trouble found = Conflict(cell, access, true);
    if (found.fault != Fault::kNone) trouble = found;
    cell.write = access;
  }
  return trouble;
}

Trouble Shadow::Begin(uint64_t address, int bytes, Access access) {
  const Trouble trouble = Write(address, bytes, access);
  for (uint64_t i = address / granule_; i < (address + bytes + granule_ - 1) / granule_; ++i) {
    cells_[i].pending = first_;
  }
  return trouble;
}

void Shadow::Finish(uint64_t address, int bytes, Access access) {
  for (uint64_t i = address / granule_; i < (address + bytes + granule_ - 1) / granule_; ++i) {
    cells_[i].pending = 0;
    cells_[i].write = access;
  }
}

}  // namespace ptx
