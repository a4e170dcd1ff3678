// What each piece of a thread block's shared memory knows of its last accesses.
#pragma once
#include <cstdint>
#include <vector>

#include "clock.h"

namespace ptx {

// An access: its thread, what stood between it and earlier ones, and its instruction's line.
struct Access {
  uint32_t epoch;  // barriers of the block so far; grows over blocks, so nothing is ever cleared
  uint32_t time;   // of its warp's clock
  uint16_t thread;
  uint16_t sync;  // barriers of the warp so far
  int32_t line;
};

// One that is made now, and what its thread knows.
struct Actor : Access {
  const Clock* known;  // or null
};

enum class Fault { kNone, kUnwritten, kRace, kUnfinished, kOpen, kProxy };

struct Trouble {
  Fault fault = Fault::kNone;
  Access other{};
};

// Pieces are as large as the smallest access of the kernel: no two threads ever share one by luck.
class Shadow {
 public:
  // `clocked`: warps wait for each other by more than barriers of the whole block.
  void Resize(uint64_t bytes, int granule, bool clocked);
  void NextBlock();
  void NextEpoch() { ++epoch_; }
  uint32_t epoch() const { return epoch_; }

  Trouble Read(uint64_t address, int bytes, const Actor& access);
  Trouble Write(uint64_t address, int bytes, const Actor& access);
  // Reads and writes at once; no race with others of its kind.
  Trouble Change(uint64_t address, int bytes, const Actor& access);
  // An asynchronous copy begins to write, and has written.
  Trouble Begin(uint64_t address, int bytes, const Actor& access);
  void Finish(uint64_t address, int bytes, const Access& access);

  // The asynchronous proxy may access it: what threads wrote must be fenced.
  Trouble Look(uint64_t address, int bytes, const Actor& access, bool writes) const;
  // It begins to read, and has read.
  void Open(uint64_t address, int bytes, const Actor& access);
  void Close(uint64_t address, int bytes, const Actor& access);
  // A bulk copy has written.
  void Fill(uint64_t address, int bytes, const Access& access);

 private:
  struct Reader {
    Access access{};
    uint32_t lanes = 0;  // of its warp, since that warp's last barrier
  };
  // Accesses that may be made at once: reads, or atomics.
  struct Readers {
    Reader last;
    uint32_t others = 0;  // place in `others_` of those of other warps, 0: none
    bool warps = false;   // several warps have made them
  };
  // Of a cell that atomics change.
  struct Changes {
    Readers made;
    uint32_t block = 0;  // first_ of the block that made the last one
  };
  struct Cell {
    Access write{};
    Readers reads;
    uint32_t pending = 0;  // first_ of the block whose copy is under way
    uint32_t changes = 0;  // place in `changes_`, 0: no atomic ever changed it
    uint16_t open = 0;     // reads of the asynchronous proxy under way
    bool proxy = false;    // a bulk copy wrote it
  };
  Trouble Plain(const Cell& cell, const Actor& access, bool writes) const;
  Trouble Conflict(const Cell& cell, const Actor& access, bool writes) const;
  Trouble Races(const Readers& made, const Actor& access) const;
  bool Written(const Cell& cell) const;
  bool Ordered(const Access& before, const Actor& access) const;
  bool OrderedReads(const Reader& reader, const Actor& access) const;
  const Reader* Unordered(const Readers& made, const Actor& access) const;
  void Note(Readers* made, const Access& access);
  void Keep(Readers* made);
  template <class Each>
  void Cells(uint64_t address, int bytes, Each each);

  std::vector<Cell> cells_;
  std::vector<std::vector<Reader>> others_;
  std::vector<Changes> changes_{1};
  int granule_ = 1;
  bool clocked_ = false;
  uint32_t epoch_ = 0, first_ = 0;
};

}  // namespace ptx
