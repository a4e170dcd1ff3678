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
  changes_.assign(1, {});
}

void Shadow::NextBlock() {
  first_ = ++epoch_;
  if (!clocked_) return;
  others_.assign(1, {});
  for (Cell& cell : cells_) cell.open = cell.reads.others = 0;
  for (Changes& changes : changes_) changes.made.others = 0;
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

// One of them that an access does not come after, or null.
const Shadow::Reader* Shadow::Unordered(const Readers& made, const Actor& access) const {
  if (!OrderedReads(made.last, access)) return &made.last;
  if (!clocked_) {
    const bool others = made.warps && made.last.access.epoch == access.epoch;
    return others ? &made.last : nullptr;
  }
  if (made.others == 0) return nullptr;
  for (const Reader& reader : others_[made.others]) {
    if (!OrderedReads(reader, access)) return &reader;
  }
  return nullptr;
}

Trouble Shadow::Races(const Readers& made, const Actor& access) const {
  const Reader* reader = Unordered(made, access);
  return reader == nullptr ? Trouble{} : Trouble{Fault::kRace, reader->access};
}

// What atomics race with, too.
Trouble Shadow::Plain(const Cell& cell, const Actor& access, bool writes) const {
  if (cell.pending == first_) return {Fault::kUnfinished, cell.write};
  if (writes && cell.open > 0) return {Fault::kOpen, cell.reads.last.access};
  if (cell.write.epoch >= first_ && !Ordered(cell.write, access)) return {Fault::kRace, cell.write};
  return writes ? Races(cell.reads, access) : Trouble{};
}

Trouble Shadow::Conflict(const Cell& cell, const Actor& access, bool writes) const {
  const Trouble found = Plain(cell, access, writes);
  if (found.fault != Fault::kNone || cell.changes == 0) return found;
  return Races(changes_[cell.changes].made, access);
}

bool Shadow::Written(const Cell& cell) const {
  return cell.write.epoch >= first_ || (cell.changes && changes_[cell.changes].block == first_);
}

// The last one of another warp is kept beside the new one.
void Shadow::Keep(Readers* made) {
  if (made->others == 0) {
    made->others = static_cast<uint32_t>(others_.size());
    others_.emplace_back();
  }
  std::vector<Reader>& others = others_[made->others];
  for (Reader& other : others) {
    if (!SameWarp(other.access, made->last.access)) continue;
    const bool together = other.access.sync == made->last.access.sync;
    const uint32_t lanes = together ? other.lanes : 0;
    other = made->last;
    other.lanes |= lanes;
    return;
  }
  others.push_back(made->last);
}

void Shadow::Note(Readers* made, const Access& access) {
  Reader& last = made->last;
  const bool same_epoch = last.access.epoch == access.epoch;
  const bool same_warp = SameWarp(last.access, access);
  made->warps = same_epoch && (made->warps || !same_warp);
  if (clocked_ && same_epoch && !same_warp) Keep(made);
  const bool together = same_epoch && same_warp && last.access.sync == access.sync;
  last.lanes = (together ? last.lanes : 0) | Lane(access);
  last.access = access;
}

Trouble Shadow::Read(uint64_t address, int bytes, const Actor& access) {
  Trouble trouble;
  Cells(address, bytes, [&](Cell& cell) {
    const Trouble found = Conflict(cell, access, false);
    if (found.fault != Fault::kNone) trouble = found;
    else if (!Written(cell)) trouble = {Fault::kUnwritten, {}};
    Note(&cell.reads, access);
  });
  return trouble;
}

Trouble Shadow::Change(uint64_t address, int bytes, const Actor& access) {
  Trouble trouble;
  Cells(address, bytes, [&](Cell& cell) {
    const Trouble found = Plain(cell, access, true);
    if (found.fault != Fault::kNone) trouble = found;
    else if (!Written(cell)) trouble = {Fault::kUnwritten, {}};
    if (cell.changes == 0) {
      cell.changes = static_cast<uint32_t>(changes_.size());
      changes_.emplace_back();
    }
    Changes& changes = changes_[cell.changes];
    changes.block = first_;
    Note(&changes.made, access);
    cell.proxy = false;
  });
  return trouble;
}

Trouble Shadow::Write(uint64_t address, int bytes, const Actor& access) {
  Trouble trouble;
  Cells(address, bytes, [&](Cell& cell) {
    const Trouble found = Conflict(cell, access, true);
    if (found.fault != Fault::kNone) trouble = found;
    if (cell.reads.others != 0) others_[cell.reads.others].clear();
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
    const bool written = Written(cell);
    const bool changed = cell.changes != 0 && changes_[cell.changes].block == first_;
    const Access& last = changed ? changes_[cell.changes].made.last.access : cell.write;
    const bool seen =
        access.known != nullptr && Knows(access.known->fenced, last.thread, last.time);
    if (found.fault != Fault::kNone) trouble = found;
    else if (!written && !writes) trouble = {Fault::kUnwritten, {}};
    else if (written && !cell.proxy && !seen) trouble = {Fault::kProxy, last};
  });
  return trouble;
}

void Shadow::Open(uint64_t address, int bytes, const Actor& access) {
  Cells(address, bytes, [&](Cell& cell) {
    ++cell.open;
    Note(&cell.reads, access);
  });
}

void Shadow::Close(uint64_t address, int bytes, const Actor& access) {
  Cells(address, bytes, [&](Cell& cell) {
    if (cell.open > 0) --cell.open;
    Note(&cell.reads, access);
  });
}

void Shadow::Fill(uint64_t address, int bytes, const Access& access) {
  Finish(address, bytes, access);
  Cells(address, bytes, [&](Cell& cell) { cell.proxy = true; });
}

}  // namespace ptx
