#include "threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string>

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
  if (wish) return check_count("threads", std::to_string(wish));
  const char* found = std::getenv("TVM_NUM_THREADS");
  if (found && *found && found != ours) return check_count("TVM_NUM_THREADS", found);
  int cores = physical_cores();
  ours = std::to_string(std::min(recorded ? recorded : cores, cores));
  setenv("TVM_NUM_THREADS", ours.c_str(), 1);
}

}  // namespace tvm_sparse
