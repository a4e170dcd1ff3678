#include "shadow.h"

namespace ptx {

constexpr int kWarp = 32;

namespace {

bool SameWarp(const Access& a, const Access& b) { return a.thread / kWarp == b.thread / kWarp; }

uint32_t Lane(const Access& access) { return uint32_t{1} << access.thread % kWarp; }

}  // namespace

void Shadow::Resize(uint64_t bytes, int granule, bool clocked) {
  granule_ = granule;
  clocked_ = clocked;
  cells_.assign((bytes + granule - 1) / granule, Cell{});
}

void Shadow::NextBlock() {
  first_ = ++epoch_;
  if (!clocked_) return;
  others_.assign(1, {});
  for (Cell& cell : cells_) cell.open = cell.others = 0;
}

template <class Each>
void Shadow::Cells(uint64_t address, int bytes, Each each) {
  for (uint64_t i = address / granule_; i < (address + bytes + granule_ - 1) / granule_; ++i) {
    each(cells_[i]);
  }
}

// Whether an access of this block comes before another: a barrier of the block or of their warp
// lies between, or their thread is the same or knows of it.
bool Shadow::Ordered(const Access& before, const Actor& access) const {
  if (before.epoch != access.epoch || before.thread == access.thread) return true;
  if (SameWarp(before, access) && before.sync != access.sync) return true;
  return access.known != nullptr && Knows(access.known->before, before.thread, before.time);
}

bool Shadow::OrderedReads(const Reader& reader, const Actor& access) const {
  const Access& read = reader.access;
  if (read.epoch != access.epoch) return true;
  const bool same_warp = SameWarp(read, access);
  const uint32_t lanes = same_warp ? reader.lanes & ~Lane(access) : reader.lanes;
  if (lanes == 0 || (same_warp && read.sync != access.sync)) return true;
  if (access.known == nullptr) return false;
  for (int lane = 0; lane < kWarp; ++lane) {
    const uint32_t thread = read.thread / kWarp * kWarp + lane;
    if (lanes >> lane & 1 && !Knows(access.known->before, thread, read.time)) return false;
  }
  return true;
}

// A read that a write does not come after, or null.
const Shadow::Reader* Shadow::Unordered(const Cell& cell, const Actor& access) const {
  if (!OrderedReads(cell.read, access)) return &cell.read;
  if (!clocked_) {
    const bool others = cell.warps && cell.read.access.epoch == access.epoch;
    return others ? &cell.read : nullptr;
  }
  if (cell.others == 0) return nullptr;
  for (const Reader& reader : others_[cell.others]) {
    if (!OrderedReads(reader, access)) return &reader;
  }
  return nullptr;
}

Trouble Shadow::Conflict(const Cell& cell, const Actor& access, bool writes) const {
  if (cell.pending == first_) return {Fault::kUnfinished, cell.write};
  if (writes && cell.open > 0) return {Fault::kOpen, cell.read.access};
  if (cell.write.epoch >= first_ && !Ordered(cell.write, access)) return {Fault::kRace, cell.write};
  if (!writes) return {};
  const Reader* reader = Unordered(cell, access);
  return reader == nullptr ? Trouble{} : Trouble{Fault::kRace, reader->access};
}

// The last read of another warp is kept beside the new one.
void Shadow::Keep(Cell* cell) {
  if (cell->others == 0) {
    cell->others = static_cast<uint32_t>(others_.size());
    others_.emplace_back();
  }
  std::vector<Reader>& others = others_[cell->others];
  for (Reader& other : others) {
    if (!SameWarp(other.access, cell->read.access)) continue;
    const bool together = other.access.sync == cell->read.access.sync;
    const uint32_t lanes = together ? other.lanes : 0;
    other = cell->read;
    other.lanes |= lanes;
    return;
  }
  others.push_back(cell->read);
}

void Shadow::Note(Cell* cell, const Access& access) {
  Reader& read = cell->read;
  const bool same_epoch = read.access.epoch == access.epoch;
  const bool same_warp = SameWarp(read.access, access);
  cell->warps = same_epoch && (cell->warps || !same_warp);
  if (clocked_ && same_epoch && !same_warp) Keep(cell);
  const bool together = same_epoch && same_warp && read.access.sync == access.sync;
  read.lanes = (together ? read.lanes : 0) | Lane(access);
  read.access = access;
}

Trouble Shadow::Read(uint64_t address, int bytes, const Actor& access) {
  Trouble trouble;
  Cells(address, bytes, [&](Cell& cell) {
    const Trouble found = Conflict(cell, access, false);
    if (found.fault != Fault::kNone) trouble = found;
    else if (cell.write.epoch < first_) trouble = {Fault::kUnwritten, {}};
    Note(&cell, access);
  });
  return trouble;
}

Trouble Shadow::Write(uint64_t address, int bytes, const Actor& access) {
  Trouble trouble;
  Cells(address, bytes, [&](Cell& cell) {
    const Trouble found = Conflict(cell, access, true);
    if (found.fault != Fault::kNone) trouble = found;
    if (cell.others != 0) others_[cell.others].clear();
    cell.write = access;
    cell.proxy = false;
  });
  return trouble;
}

Trouble Shadow::Begin(uint64_t address, int bytes, const Actor& access) {
  const Trouble trouble = Write(address, bytes, access);
  Cells(address, bytes, [&](Cell& cell) { cell.pending = first_; });
  return trouble;
}

void Shadow::Finish(uint64_t address, int bytes, const Access& access) {
  Cells(address, bytes, [&](Cell& cell) {
    cell.pending = 0;
    cell.write = access;
  });
}

Trouble Shadow::Look(uint64_t address, int bytes, const Actor& access, bool writes) const {
  Trouble trouble;
  const_cast<Shadow*>(this)->Cells(address, bytes, [&](Cell& cell) {
    const Trouble found = Conflict(cell, access, writes);
    const bool written = cell.write.epoch >= first_;
    const bool seen =
        access.known != nullptr && Knows(access.known->fenced, cell.write.thread, cell.write.time);
    if (found.fault != Fault::kNone) trouble = found;
    else if (!written && !writes) trouble = {Fault::kUnwritten, {}};
    else if (written && !cell.proxy && !seen) trouble = {Fault::kProxy, cell.write};
  });
  return trouble;
}

void Shadow::Open(uint64_t address, int bytes, const Actor& access) {
  Cells(address, bytes, [&](Cell& cell) {
    ++cell.open;
    Note(&cell, access);
  });
}

void Shadow::Close(uint64_t address, int bytes, const Actor& access) {
  Cells(address, bytes, [&](Cell& cell) {
    if (cell.open > 0) --cell.open;
    Note(&cell, access);
  });
}

void Shadow::Fill(uint64_t address, int bytes, const Access& access) {
  Finish(address, bytes, access);
  Cells(address, bytes, [&](Cell& cell) { cell.proxy = true; });
}

}  // namespace ptx
