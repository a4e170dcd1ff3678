// A library as TVM compiles them, whose function runs parallel loops and tells who ran what.
#include <tvm/ffi/c_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>

extern "C" {

struct Environment {
  void* barrier;
  int32_t tasks;
};

// TVM's loader sets it.
int (*__TVMBackendParallelLaunch)(int (*)(int, Environment*, void*), void*, int) = nullptr;

struct Counts {
  int64_t failing;  // the task that fails, or -1
  std::atomic<int64_t> in_crews;
  std::atomic<int64_t> runs[16];  // of each task
};

static int body(int task, Environment* environment, void* data) {
  auto* counts = static_cast<Counts*>(data);
  if (environment->barrier == nullptr) ++counts->in_crews;
  ++counts->runs[task];
  if (task != counts->failing) return 0;
  TVMFFIErrorSetRaisedFromCStr("ValueError", "a task that fails");
  return -1;
}

// (loops, tasks, microseconds, address of counts): take so long, then run as many loops. 0 tasks
// are as many as there are threads.
int __tvm_ffi_loops(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny* result) {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::microseconds(arguments[2].v_int64);
  while (Clock::now() < end) continue;
  auto* counts = reinterpret_cast<Counts*>(arguments[3].v_int64);
  result->type_index = kTVMFFINone;
  for (int64_t i = 0; i < arguments[0].v_int64; ++i) {
    if (__TVMBackendParallelLaunch(body, counts, static_cast<int>(arguments[1].v_int64))) return -1;
  }
  return 0;
}

}  // extern "C"
