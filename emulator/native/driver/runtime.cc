// libcudart.so.13 without a GPU: device memory is host memory, streams do everything at once.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "../executor/api.h"
#include "cuda_abi.h"

namespace {

constexpr unsigned kNonBlocking = 1;

enum Kind { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };

void Note(const char* format, size_t bytes, int kind) {
  char line[100];
  std::snprintf(line, sizeof line, format, bytes, kind);
  ts_note(line);
}

// Something that differs from null and from every other.
cudaError_t New(Handle* handle) {
  *handle = std::malloc(1);
  return kSuccess;
}

cudaError_t Free(Handle handle) {
  std::free(handle);
  return kSuccess;
}

// Streams that do not wait for the default one.
std::set<Handle>& Apart() {
  static std::set<Handle> streams;
  return streams;
}

// Events that are part of a graph which is being captured, and on which stream.
std::map<Handle, Handle>& InCapture() {
  static std::map<Handle, Handle> events;
  return events;
}

// Of the GPU that is stood in for: FAKE_CUDA_CAPABILITY, ten times the major version plus the minor
// one, or that of Hopper.
int Capability() {
  const char* asked = std::getenv("FAKE_CUDA_CAPABILITY");
  const int number = asked ? std::atoi(asked) : 0;
  return number > 0 ? number : 90;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, kSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, kSuccess; }
cudaError_t cudaSetDevice(int) { return kSuccess; }

cudaError_t cudaDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case kCapabilityMajor: *value = Capability() / 10; break;
    case kCapabilityMinor: *value = Capability() % 10; break;
    case kMultiProcessorCount: *value = 132; break;
    case kMaxSharedMemoryPerBlock: *value = 49152; break;
    case kWarpSize: *value = 32; break;
    default: *value = 1024;
  }
  return kSuccess;
}

// The name is the first member; TVM reads no other.
cudaError_t cudaGetDeviceProperties(void* properties, int) {
  std::strcpy(static_cast<char*>(properties), "emulated");
  return kSuccess;
}

cudaError_t cudaMemGetInfo(size_t* unused, size_t* total) {
  *unused = *total = size_t{8} << 30;
  return kSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t size) {
  Note("malloc %zu", size, 0);
  if (const int refused = ts_ask_for_memory()) return refused;
  *memory = ts_ptx_allocate(size);
  return *memory ? kSuccess : kOutOfMemory;
}

cudaError_t cudaFree(void* memory) {
  ts_note("wait for the device: free");
  if (const int refused = ts_ask_for_memory()) return refused;
  return ts_ptx_free(memory), kSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t size) {
  return *memory = std::malloc(size), kSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return Free(memory); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, Handle stream) {
  Note("copy %zu %d", size, kind);
  ts_note_stream(stream, kind == kDeviceToHost ? "copy to the host" : "copy");
  return ts_copy(stream, to, from, size, kind == kHostToDevice || kind == kDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, Handle stream) {
  return cudaMemcpyAsync(to, from, size, kDeviceToDevice, stream);
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t size, Handle stream) {
  ts_note_stream(stream, "fill");
  return ts_fill(stream, memory, value, size);
}

cudaError_t cudaEventCreate(Handle* event) { return New(event); }
cudaError_t cudaEventDestroy(Handle event) {
  InCapture().erase(event);
  return Free(event);
}
cudaError_t cudaEventRecord(Handle event, Handle stream) {
  InCapture().erase(event);
  if (ts_captures(stream)) InCapture()[event] = stream;
  return ts_note_stream(stream, "record"), kSuccess;
}
cudaError_t cudaEventSynchronize(Handle event) {
  ts_note("wait for the device: event");
  const auto found = InCapture().find(event);
  return found == InCapture().end() ? kSuccess : ts_wait(found->second);
}

// Nothing here tells how long a GPU would take: one millisecond, whatever was done between.
cudaError_t cudaEventElapsedTime(float* time, Handle, Handle) { return *time = 1, kSuccess; }

cudaError_t cudaStreamCreate(Handle* stream) { return New(stream); }
cudaError_t cudaStreamCreateWithFlags(Handle* stream, unsigned flags) {
  New(stream);
  if (flags & kNonBlocking) Apart().insert(*stream);
  return kSuccess;
}
cudaError_t cudaStreamDestroy(Handle stream) {
  Apart().erase(stream);
  return Free(stream);
}
cudaError_t cudaStreamSynchronize(Handle stream) {
  ts_note("wait for the device: stream");
  if (const int refused = ts_wait(stream)) return refused;
  return ts_note_stream(stream, "wait of the host"), kSuccess;
}
cudaError_t cudaStreamWaitEvent(Handle stream, Handle, unsigned) {
  return ts_note_stream(stream, "wait for the recorded"), kSuccess;
}

cudaError_t cudaStreamBeginCapture(Handle stream, int mode) {
  return ts_capture_begin(stream, mode, !Apart().count(stream));
}
cudaError_t cudaStreamEndCapture(Handle, Handle* graph) { return ts_capture_end(graph); }

// A graph is executed as it is; its owner is what was instantiated.
cudaError_t cudaGraphInstantiate(Handle* runnable, Handle graph, unsigned long long) {
  return *runnable = graph, kSuccess;
}
cudaError_t cudaGraphDestroy(Handle) { return kSuccess; }
cudaError_t cudaGraphExecDestroy(Handle graph) { return ts_graph_free(graph), kSuccess; }
cudaError_t cudaGraphLaunch(Handle graph, Handle stream) {
  ts_note_stream(stream, "graph");
  return ts_graph_run(graph);
}

cudaError_t cudaGetLastError() { return kSuccess; }
cudaError_t cudaPeekAtLastError() { return kSuccess; }
const char* cudaGetErrorName(cudaError_t error) { return error ? ts_problem() : "cudaSuccess"; }
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
}
