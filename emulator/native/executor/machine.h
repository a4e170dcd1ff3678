// One thread block: its warps, its shared memory, and what all handlers of instructions use.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "counters.h"
#include "device.h"
#include "mbarrier.h"
#include "program.h"
#include "registers.h"
#include "shadow.h"

namespace ptx {

struct Extents {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return static_cast<uint64_t>(x) * y * z; }
};

struct Launch {
  Device* device;
  const Module* module;
  const Kernel* kernel;
  Extents grid, block;
  uint64_t dynamic_shared = 0;
  std::vector<char> params;
  Counters counters;
};

// A cp.async of a warp whose data has not arrived yet.
struct Copy {
  const Inst* inst;
  Mask mask;  // lanes that still wait for theirs
  uint64_t to[kLanes];
  const char* from[kLanes];  // null: zeros
  uint32_t size[kLanes];     // bytes that come from memory, the rest is zeros
  uint32_t group[kLanes];    // number of the group of each lane
};

struct Branch {
  int pc;
  Mask mask;
  int join;
};

struct Block;

struct Warp {
  // Waiting: at the block's barrier; named: at one with a count; polling: at a mbarrier.
  enum State { kRunning, kWaiting, kNamed, kPolling, kDone };
  std::vector<char> registers;
  const char* base[2];
  Block* block;
  int index;
  Mask alive, active;
  int pc = 0, join = -1;
  State state = kRunning;
  std::vector<Branch> stack;
  std::vector<Copy> copies;
  uint32_t groups[kLanes] = {};  // committed so far
  uint16_t syncs = 0;            // of this warp
  uint32_t time = 1;             // grows with what it lets others know
  Known known[kLanes];
  std::vector<BulkStore> stores;      // bulk copies to global memory under way
  std::vector<Product> products;      // of its warpgroup, not waited for yet
  uint32_t product_groups = 0;        // committed so far
  Issued issued;                      // products that it asked for
  uint32_t bulk_groups[kLanes] = {};  // of bulk copies, committed so far
  Touched touched;
  const Inst* stands = nullptr;  // where it waits
  uint64_t stands_at = 0;        // address of the mbarrier, or kInMemory
  uint64_t seen = 0, own = 0;    // hashes of what it saw last, of its registers then: spins.h
  std::vector<char> local;

  template <class T>
  T* At(Place place) const {
    return reinterpret_cast<T*>(const_cast<char*>(base[place >> 31] + (place & ~kConstant)));
  }
};

enum Barriers { kOfBlock, kNumbered, kArrives };  // detail of instructions

// A barrier with a count of threads, by its number.
struct Named {
  uint32_t expected = 0, arrived = 0;
  Known gathered;
};

constexpr int kNamedBarriers = 16;
constexpr uint64_t kInMemory = ~uint64_t{0};

struct Block {
  Launch* launch;
  Extents at;
  std::vector<char> shared;
  Shadow shadow;
  std::vector<Warp> warps;
  const Inst* barrier = nullptr;  // the one that warps wait at
  Named named[kNamedBarriers];
  std::map<uint64_t, MBarrier> mbarriers;  // by their address
  uint32_t mbarriers_made = 0;
  uint64_t events = 0;  // grows with all that a waiting warp may wait for

  int Thread(const Warp& warp, int lane) const { return warp.index * kLanes + lane; }
};

// Windows of the generic address space.
constexpr uint64_t kSharedWindow = uint64_t{1} << 62;
constexpr uint64_t kLocalWindow = uint64_t{1} << 61;
constexpr uint64_t kParamWindow = uint64_t{1} << 60;

class Machine {
 public:
  explicit Machine(Launch* launch);
  void RunBlock(Extents at);

 private:
  void Start(Extents at);
  void RunWarp(Warp* warp);
  void Step(Warp* warp, const Inst& inst);
  void Meet(Warp* warp);
  void BranchTo(Warp* warp, const Inst& inst, Mask taken);
  void Exit(Warp* warp, Mask lanes);
  void Barrier(Warp* warp, const Inst& inst, Mask lanes);
  void Arrive(Warp* warp, const Inst& inst, Mask lanes);
  void Release();
  void End(Warp* warp);
  void Forget(Warp* warp);
  Block block_;
};

// What a sanitizer found, about lane `lane` of `warp`.
void Report(Warp& warp, const Inst& inst, int lane, const char* kind, const std::string& buffer,
            const std::string& detail);

// Report unless all lanes of the warp execute an instruction together.
void ExpectWhole(Warp& warp, const Inst& inst, Mask mask);

// Report lanes that a mask names but that do not execute an instruction with the one that names it.
void ExpectMembers(Warp& warp, const Inst& inst, Mask mask, const uint32_t* members);

// All warps that are left wait for what never comes.
void ReportDeadlock(Block& block);

// Products and bulk copies that a warp leaves behind when it ends.
void ReportLeft(Warp& warp);

// Warps of a warpgroup that asked for other products than its first one.
void ReportUnlike(Block& block);

// Deliver copies of `lanes` whose group has a number below the lane's `limit`.
void Deliver(Warp& warp, Mask lanes, const uint32_t* limit);

}  // namespace ptx
