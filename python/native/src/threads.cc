#include "threads.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "engine.h"
#include "error.h"
#include "host.h"

namespace tvm_sparse {

void choose_threads(int wish, int recorded) {
  static std::mutex mutex;
  static std::string ours;  // any other value is the user's
  std::lock_guard<std::mutex> lock(mutex);
  if (wish < 0) throw Error(TVM_SPARSE_BAD_ARGUMENT, "threads", std::to_string(wish), "at least 1");
  setenv("TVM_BIND_THREADS", "0", 0);  // else TVM changes the caller's CPU affinity
  const char* found = std::getenv("TVM_NUM_THREADS");
  if (!wish && found && *found && found != ours) return;
  int cores = physical_cores();
  ours = std::to_string(wish ? wish : std::min(recorded ? recorded : cores, cores));
  setenv("TVM_NUM_THREADS", ours.c_str(), 1);
}

void resize_pool(int wish) {
  if (!wish) return;
  auto current = registered("runtime.NumThreads");
  if (current().cast<int>() != wish) registered("runtime.config_threadpool")(0, wish);
  int count = current().cast<int>();
  if (count == wish) return;
  throw Error(TVM_SPARSE_BAD_ARGUMENT, "threads",
              std::to_string(wish) + ", but this thread has a pool of " + std::to_string(count) +
                  " already",
              "a number set before the first call", "open with it first, or set TVM_NUM_THREADS");
}

}  // namespace tvm_sparse
