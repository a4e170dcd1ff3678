// A kernel after parsing: instructions decoded once, operands as places in lane arrays.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ptx {

constexpr int kLanes = 32;
using Mask = uint32_t;
constexpr Mask kAll = 0xffffffffu;

struct Warp;
struct Inst;
using Run = void (*)(Warp&, const Inst&, Mask);

enum class Type : uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kF32,
  kF64,
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

// The unit of an SM that issues an instruction, as far as PTX tells.
enum Pipe : uint8_t { kFma, kAlu, kHalf, kSpecial, kMemory, kTensor, kControl, kPipes };
extern const char* const kPipeNames[kPipes];

// What the loop over instructions does itself.
enum class Flow : uint8_t { kNext, kBranch, kReturn, kBarrier };

// A place in a warp's registers, or with the highest bit set in its kernel's constants.
using Place = uint32_t;
constexpr Place kConstant = 0x80000000u;
constexpr Place kNowhere = 0x7fffffffu;

struct Inst {
  Run run = nullptr;
  const Place* args = nullptr;
  int64_t offset = 0;      // of an address, or an immediate of the instruction
  Place guard = kNowhere;  // a predicate
  int32_t target = -1;     // of a branch
  int32_t join = -1;       // where lanes that part here meet again
  int32_t line = 0;
  bool negated = false;
  Flow flow = Flow::kNext;
  Pipe pipe = kAlu;
  Space space = Space::kGeneric;
  uint8_t bytes = 0;      // of one element in memory
  uint8_t count = 1;      // elements of a vector
  uint8_t wide = 0;       // bytes of an address register
  uint8_t narrow = 0;     // addresses with registers of 32 bits, where there are several
  uint16_t operands = 0;  // places in `args`
  uint32_t targets = 0;   // those of them that it writes
  int32_t detail = 0;     // of the instruction's own
};

struct Parameter {
  std::string name;
  uint32_t offset, bytes;
};

struct Variable {
  std::string name;
  Space space;
  uint64_t offset, bytes;
};

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLane,
  kWarp,
  kLaneEq,
  kLaneLt,
  kLaneLe,
  kLaneGt,
  kLaneGe,
  kDynamicShared,
  kZero,
  kOne,
};

struct Kernel {
  std::string name;
  std::vector<Parameter> params;
  uint32_t param_bytes = 0;
  uint64_t most_threads = 1024;
  std::vector<Inst> code;
  std::vector<Place> operands;
  std::vector<char> constants;
  uint32_t register_bytes = 0;
  std::vector<std::pair<Special, Place>> specials;
  uint64_t shared_bytes = 0, local_bytes = 0;
  std::vector<Variable> shared;
  int granule = 16;      // bytes of the smallest access to shared memory
  bool clocked = false;  // warps wait for each other by more than barriers of the whole block
  bool watched = false;  // products of warpgroups own registers for a while
};

struct Module {
  std::vector<std::string> lines;
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::vector<char>> globals;  // variables with what they begin with
};

// Parse and decode; throws std::runtime_error that names the line and what is not known.
Module Load(const std::string& text);

int Bytes(Type type);

}  // namespace ptx
