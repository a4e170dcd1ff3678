// The part of CUDA's binary interface that TVM calls, so that no toolkit is needed to build it.
// Names and values are those of cuda.h and driver_types.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

using CUresult = int;
using cudaError_t = int;
using Handle = void*;  // of a module, function, stream, event or graph

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1, kOutOfMemory = 2;  // both interfaces
constexpr int kNoBinaryForGpu = 209, kInvalidPtx = 218, kNotFound = 500, kLaunchFailed = 719;
constexpr int kNotSupported = 801;

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  Handle hStream;
  void* attrs;
  unsigned numAttrs;
};

enum Attribute {
  kMaxThreadsPerBlock = 1,
  kMaxSharedMemoryPerBlock = 8,
  kWarpSize = 10,
  kMultiProcessorCount = 16,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76
};

// A kernel launch as both halves see it: executed, or kept while a stream is captured.
struct LaunchRequest {
  const struct Function* function;
  uint32_t grid[3], block[3];
  uint64_t shared;
};

// Of the driver, for the runtime: capture what follows as a graph, end it, run one, forget one.
extern "C" {
void ts_capture_begin();
Handle ts_capture_end();
int ts_graph_run(Handle graph);
void ts_graph_free(Handle graph);
// Do a copy or a fill now, or when the captured graph runs.
int ts_copy(void* to, const void* from, size_t bytes, int to_device);
int ts_fill(void* to, int value, size_t bytes);
// Do anything else now, or when the captured graph runs.
int ts_do(const std::function<int()>& work);
// "captured" if a graph is being captured, else "at once".
const char* ts_capturing();
const char* ts_problem();        // what the last failure was
void ts_note(const char* line);  // write a line to the log, if there is one
// Write "stream <number> <what>" to the log: its handle as a number, 0 for the default one.
void ts_note_stream(Handle stream, const char* what);
}
