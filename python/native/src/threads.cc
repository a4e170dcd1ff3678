#include "threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string>

#include "engine.h"
#include "error.h"
#include "host.h"

namespace tvm_sparse {
namespace {

constexpr int kMostThreads = 4096;

void check_count(const std::string& where, const std::string& text) {
  int count = 0;
  const char* end = text.data() + text.size();
  auto [stop, failed] = std::from_chars(text.data(), end, count);
  if (failed == std::errc() && stop == end && count >= 1 && count <= kMostThreads) return;
  throw Error(TVM_SPARSE_BAD_ARGUMENT, where, shown(text),
              "a number of threads, 1 to " + std::to_string(kMostThreads));
}

}  // namespace

void choose_threads(int wish, int recorded) {
  static std::mutex mutex;
  static std::string ours;  // any other value is the user's
  std::lock_guard<std::mutex> lock(mutex);
  if (wish) check_count("threads", std::to_string(wish));
  setenv("TVM_BIND_THREADS", "0", 0);  // else TVM changes the caller's CPU affinity
  const char* found = std::getenv("TVM_NUM_THREADS");
  if (!wish && found && *found && found != ours) return check_count("TVM_NUM_THREADS", found);
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
