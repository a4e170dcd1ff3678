// What each piece of a thread block's shared memory knows of its last accesses.
#pragma once
#include <cstdint>
#include <vector>

namespace ptx {

// An access: its thread, what stood between it and earlier ones, and its instruction's line.
struct Access {
  uint32_t epoch;  // barriers of the block so far; grows over blocks, so nothing is ever cleared
  uint16_t thread;
  uint16_t sync;  // barriers of the warp so far
  int32_t line;
};

enum class Fault { kNone, kUnwritten, kRace, kUnfinished };

struct Trouble {
  Fault fault = Fault::kNone;
  Access other{};
};

// Pieces are as large as the smallest access of the kernel: no two threads ever share one by luck.
class Shadow {
 public:
  void Resize(uint64_t bytes, int granule);
  void NextBlock() { first_ = ++epoch_; }
  void NextEpoch() { ++epoch_; }
  uint32_t epoch() const { return epoch_; }

  Trouble Read(uint64_t address, int bytes, Access access);
  Trouble Write(uint64_t address, int bytes, Access access);
  // An asynchronous copy begins to write, and has written.
  Trouble Begin(uint64_t address, int bytes, Access access);
  void Finish(uint64_t address, int bytes, Access access);

 private:
  struct Cell {
    Access write{}, read{};
    uint32_t pending = 0;  // first_ of the block whose copy is under way
    bool threads = false;  // several threads have read since
    bool warps = false;    // of several warps
  };
  Trouble Conflict(const Cell& cell, const Access& access, bool writes) const;
  bool Ordered(const Access& before, const Access& access) const;

  std::vector<Cell> cells_;
  int granule_ = 1;
  uint32_t epoch_ = 0, first_ = 0;
};

}  // namespace ptx
