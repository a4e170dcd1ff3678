// libcuda.so.1 without a GPU: PTX is executed on the CPU, calls are written to a log.
//
// With FAKE_CUDA_LOG set to a file, machine code may be loaded too; its launches are logged and
// compute nothing. Without it, only PTX is accepted.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../executor/api.h"
#include "cuda_abi.h"

namespace {

constexpr size_t kMessage = 1000;
std::string problem;  // of the last call that failed

int Failed(int status, const std::string& what) {
  problem = what;
  return status;
}

FILE* Log() {
  static FILE* file = [] {
    const char* path = std::getenv("FAKE_CUDA_LOG");
    FILE* opened = path ? std::fopen(path, "a") : nullptr;
    if (opened) std::setvbuf(opened, nullptr, _IOLBF, 0);
    return opened;
  }();
  return file;
}

__attribute__((format(printf, 1, 2))) void Record(const char* format, ...) {
  if (!Log()) return;
  va_list values;
  va_start(values, format);
  std::vfprintf(Log(), format, values);
  va_end(values);
}

struct Loaded {
  void* module = nullptr;  // null: machine code
  ~Loaded() {
    if (module) ts_ptx_unload(module);
  }
};

using Work = std::function<int()>;
using Graph = std::vector<Work>;

struct Capture {
  Handle stream;
  int mode, blocking;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
};
std::unique_ptr<Capture> capture;  // its graph is null once something was refused

// Refuse something, which spoils the graph that is being captured.
int Refused(int status, const char* what) {
  Record("refused in a capture: %s\n", what);
  capture->graph.reset();
  return Failed(status, std::string(what) + " while a graph is captured");
}

// Now, or when the graph runs that is being captured on this stream.
int Do(Handle stream, const Work& work) {
  if (!capture) return work();
  if (!stream && capture->blocking) {
    return Refused(kCaptureImplicit, "the default stream is used");
  }
  if (stream != capture->stream) return work();
  if (!capture->graph) return Failed(kCaptureInvalid, "the captured graph is spoiled");
  capture->graph->push_back(work);
  return kSuccess;
}

}  // namespace

struct Function {
  const Loaded* owner;
  std::string name;
  const void* kernel;
};

namespace {

int Execute(const LaunchRequest& request, const std::vector<std::vector<char>>& arguments) {
  std::vector<const void*> places;
  for (const std::vector<char>& one : arguments) places.push_back(one.data());
  char error[kMessage] = "";
  const Function& function = *request.function;
  const int failed =
      ts_ptx_launch(function.owner->module, function.kernel, request.grid, request.block,
                    request.shared, places.data(), error, sizeof error);
  return failed ? Failed(kLaunchFailed, error) : kSuccess;
}

}  // namespace

extern "C" {

const char* ts_problem() { return problem.c_str(); }

void ts_note(const char* line) { Record("%s\n", line); }

void ts_note_stream(Handle stream, const char* what) {
  Record("stream %zu %s\n", reinterpret_cast<size_t>(stream), what);
}

int ts_capture_begin(Handle stream, int mode, int blocking) {
  if (!stream) return Failed(kCaptureUnsupported, "the default stream cannot be captured");
  Record("capture begin\n");
  capture.reset(new Capture{stream, mode, blocking});
  return kSuccess;
}

int ts_capture_end(Handle* graph) {
  Record("capture end\n");
  *graph = capture ? capture->graph.release() : nullptr;
  capture.reset();
  return *graph ? kSuccess : Failed(kCaptureInvalid, "the captured graph is spoiled");
}

int ts_wait(Handle stream) {
  const bool own = capture && (stream == capture->stream || (!stream && capture->blocking));
  return own ? Refused(kCaptureUnsupported, "the host waits for the stream") : kSuccess;
}

int ts_ask_for_memory() {
  const bool refused = capture && capture->mode != kRelaxed;
  return refused ? Refused(kCaptureUnsupported, "memory is asked for, or given back") : kSuccess;
}

int ts_graph_run(Handle graph) {
  Record("launch graph\n");
  for (const Work& work : *static_cast<Graph*>(graph)) {
    if (const int status = work()) return status;
  }
  return kSuccess;
}

void ts_graph_free(Handle graph) { delete static_cast<Graph*>(graph); }

int ts_do(Handle stream, const std::function<int()>& work) {
  const int status = Do(stream, work);
  return status ? Failed(status, "a product reads what nobody wrote, or beyond a buffer") : status;
}

int ts_captures(Handle stream) { return capture && stream == capture->stream; }

const char* ts_capturing(Handle stream) { return ts_captures(stream) ? "captured" : "at once"; }

int ts_copy(Handle stream, void* to, const void* from, size_t bytes, int to_device) {
  return Do(stream, [=] {
    std::memcpy(to, from, bytes);
    if (to_device) ts_ptx_wrote(to, bytes);
    return kSuccess;
  });
}

int ts_fill(Handle stream, void* to, int value, size_t bytes) {
  return Do(stream, [=] {
    std::memset(to, value, bytes);
    ts_ptx_wrote(to, bytes);
    return kSuccess;
  });
}

CUresult cuModuleLoadData(Handle* module, const void* image) {
  uint32_t magic, flags;
  std::memcpy(&magic, image, sizeof magic);
  constexpr uint32_t kElf = 0x464c457f, kFat = 0xba55ed50;
  auto loaded = std::make_unique<Loaded>();
  if (magic == kElf || magic == kFat) {
    if (!Log()) return Failed(kNoBinaryForGpu, "machine code cannot be executed, only PTX");
    std::memcpy(&flags, static_cast<const char*>(image) + 48, sizeof flags);
    if (magic == kElf) Record("load cubin %u\n", flags);
    else Record("load fatbin\n");
  } else {
    char error[kMessage] = "";
    loaded->module = ts_ptx_load(static_cast<const char*>(image), error, sizeof error);
    if (!loaded->module) return Failed(kInvalidPtx, error);
    Record("load ptx\n");
  }
  *module = loaded.release();
  return kSuccess;
}

CUresult cuModuleUnload(Handle module) {
  delete static_cast<Loaded*>(module);
  return kSuccess;
}

CUresult cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  const auto* owner = static_cast<const Loaded*>(module);
  const void* kernel = owner->module ? ts_ptx_kernel(owner->module, name) : nullptr;
  if (owner->module && !kernel) return Failed(kNotFound, std::string("no kernel '") + name + "'");
  *function = new Function{owner, name, kernel};  // they live as long as their module does
  return kSuccess;
}

CUresult cuFuncSetAttribute(Handle function, int attribute, int value) {
  Record("attribute %s %d %d\n", static_cast<Function*>(function)->name.c_str(), attribute, value);
  return kSuccess;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* c, Handle handle, void** arguments, void**) {
  const auto* function = static_cast<const Function*>(handle);
  Record("launch %s %u %u %u %u %u %u %u\n", function->name.c_str(), c->gridDimX, c->gridDimY,
         c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes);
  ts_note_stream(c->hStream, "kernel");
  if (!function->kernel) return kSuccess;
  const LaunchRequest request{function,
                              {c->gridDimX, c->gridDimY, c->gridDimZ},
                              {c->blockDimX, c->blockDimY, c->blockDimZ},
                              c->sharedMemBytes};
  std::vector<std::vector<char>> values;
  for (int i = 0; const uint32_t bytes = ts_ptx_parameter(function->kernel, i); ++i) {
    const char* value = static_cast<const char*>(arguments[i]);
    values.emplace_back(value, value + bytes);
  }
  return Do(c->hStream, [request, values] { return Execute(request, values); });
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = error == kSuccess ? "CUDA_SUCCESS" : problem.c_str();  // TVM's messages hold this one
  return kSuccess;
}

CUresult cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }

CUresult cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "emulated");
  return kSuccess;
}

CUresult cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                                const uint32_t*, const uint32_t*, int, int, int, int) {
  return Failed(kNotSupported, "tensor maps (TMA) are not supported");
}
}
