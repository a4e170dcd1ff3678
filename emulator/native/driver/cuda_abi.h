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
constexpr int kCaptureUnsupported = 900, kCaptureInvalid = 901, kCaptureImplicit = 906;
constexpr int kRelaxed = 2;  // the mode of a capture in which memory may be asked for

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

// Of the driver, for the runtime: capture what follows on a stream as a graph, end it, run one,
// forget one. A stream is `blocking` if it waits for the default one.
extern "C" {
int ts_capture_begin(Handle stream, int mode, int blocking);
int ts_capture_end(Handle* graph);  // fails if something was refused meanwhile
int ts_graph_run(Handle graph);
void ts_graph_free(Handle graph);
// Do a copy or a fill now, or when the graph runs that is captured on this stream.
int ts_copy(Handle stream, void* to, const void* from, size_t bytes, int to_device);
int ts_fill(Handle stream, void* to, int value, size_t bytes);
// Do anything else so.
int ts_do(Handle stream, const std::function<int()>& work);
// Whether a graph is captured on this stream, and that in a word.
int ts_captures(Handle stream);
const char* ts_capturing(Handle stream);
// Refuse, while a graph is captured, that the host waits for its stream, or asks for memory.
int ts_wait(Handle stream);
int ts_ask_for_memory();
const char* ts_problem();        // what the last failure was
void ts_note(const char* line);  // write a line to the log, if there is one
// Write "stream <number> <what>" to the log: its handle as a number, 0 for the default one.
void ts_note_stream(Handle stream, const char* what);
}
