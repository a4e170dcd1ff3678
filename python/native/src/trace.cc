#include "trace.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "error.h"
#include "unicode.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;
using Clock = std::chrono::steady_clock;

const std::string kBuiltin = "vm.builtin.";

struct Event {
  std::string name, category;
  Clock::time_point begin, end;
};

// What a virtual machine calls before and after each step.
class Steps {
 public:
  void seen(const std::string& name, bool before) {
    if (before) {
      begun_.push_back(Clock::now());
      return;
    }
    bool builtin = name.compare(0, kBuiltin.size(), kBuiltin) == 0;
    add(builtin ? name.substr(kBuiltin.size()) : name, builtin ? "builtin" : "kernel",
        begun_.back());
    begun_.pop_back();
  }

  void add(std::string name, std::string category, Clock::time_point begin) {
    events_.push_back({std::move(name), std::move(category), begin, Clock::now()});
  }

  void clear() { events_.clear(); }

  // A call stands before what it did.
  std::string json() {
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::string text = "{\"traceEvents\":[";
    for (const Event& event : events_) {
      if (&event != &events_.front()) text += ',';
      append(&text, event);
    }
    return text + "]}\n";
  }

 private:
  void append(std::string* out, const Event& event) const {
    using Microseconds = std::chrono::duration<double, std::micro>;
    double begin = Microseconds(event.begin - events_.front().begin).count();
    char numbers[96];
    std::snprintf(numbers, sizeof(numbers), "\"ts\":%.3f,\"dur\":%.3f}", begin,
                  Microseconds(event.end - event.begin).count());
    *out += "{\"name\":";
    append_quoted(out, event.name);
    *out += ",\"cat\":";
    append_quoted(out, event.category);
    *out += ",\"ph\":\"X\",\"pid\":1,\"tid\":1,";
    *out += numbers;
  }

  std::vector<Event> events_;
  std::vector<Clock::time_point> begun_;
};

ffi::Function instrument(Steps* steps) {
  return ffi::Function::FromPacked([steps](const ffi::AnyView* step, int32_t, ffi::Any* result) {
    steps->seen(step[1].cast<std::string>(), step[2].cast<bool>());
    *result = nullptr;
  });
}

void write(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool whole = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file && std::fclose(file) != 0) whole = false;
  if (whole) return;
  throw Error(TVM_SPARSE_FAILED, path,
              std::string("cannot be written (") + std::strerror(errno) + ")", "a file",
              "name another");
}

}  // namespace

void write_trace(const std::shared_ptr<const Program>& program, int threads,
                 const tvm_sparse_tensor* inputs, size_t count, int calls,
                 const std::string& path) {
  if (program->manifest.on_gpu()) {
    throw Error(TVM_SPARSE_BAD_ARGUMENT, "trace",
                "kernels of a GPU run in a CUDA graph, inside of which nothing is timed here",
                "a program for a CPU", "NVIDIA's nsys times each kernel");
  }
  Steps steps;
  Session session(program, threads, instrument(&steps));
  session.run(inputs, count, nullptr);
  steps.clear();
  for (int i = 0; i < calls; ++i) {
    Clock::time_point begin = Clock::now();
    session.run(inputs, count, nullptr);
    steps.add("call " + std::to_string(i), "call", begin);
  }
  write(path, steps.json());
}

}  // namespace tvm_sparse
