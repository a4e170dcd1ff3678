// Libraries of NVIDIA's: looked up when a program first needs them, and never linked.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/string.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tvm_sparse {

// What is behind a product or a convolution: a sum of these.
constexpr int kWithBias = 1, kWithResidual = 2, kWithRelu = 4;

using Folders = std::vector<std::string>;
using Status = int;    // of a library's call; zero is success
using Handle = void*;  // of a library, or of what it made

// What is looked for.
struct Sought {
  const char* name;                 // in messages
  std::vector<const char*> files;   // the newest first
  std::vector<const char*> wheels;  // folders of NVIDIA's wheels, beside ours
  const char* variable;             // names the file, or is "off"
  const char* package;              // a wheel that has it
  size_t oldest;                    // version
  const char* versions;             // that do, in words
};

// Functions that every library has.
struct Functions {
  size_t (*version)() = nullptr;
  const char* (*status_name)(Status) = nullptr;
  Status (*create)(Handle*) = nullptr;

  virtual ~Functions() = default;
  virtual size_t number() const { return version(); }  // of the version
  virtual Status begin(Handle* handle) const { return create(handle); }
};

// Functions of an open library, bound by their names.
class Binder {
 public:
  Binder(void* library, std::string* problem) : library_(library), problem_(problem) {}

  template <typename Pointer>
  void operator()(const char* name, Pointer* pointer) {
    *pointer = reinterpret_cast<Pointer>(symbol(name));
  }

 private:
  void* symbol(const char* name);  // null, and a problem, if there is none

  void* library_;
  std::string* problem_;
};

struct Found {
  Handle handle = nullptr;
  std::string path;
  size_t version = 0;
  std::string problem;  // why it is not used; empty if it is
};

// The library, opened: what `variable` names, a copy that this process has loaded, one in
// `folders`, or what the loader finds. Null, and a problem, if there is none.
void* opened(const Sought& sought, const Folders& folders, std::string* problem);

// Start a library whose functions are bound; a problem if it is too old or does not start.
void start(const Sought& sought, const Functions& call, Found* found);

// A library with its own functions, which have `bind(Binder)`.
template <typename Call>
struct Library : Found {
  Call call{};
};

// The library, opened at the first call and never closed.
template <typename Call>
const Library<Call>& library(const Sought& sought, const Folders& folders = {}) {
  static std::mutex mutex;
  static const Library<Call>* known = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (known) return *known;
  auto* found = new Library<Call>;
  if (void* handle = opened(sought, folders, &found->problem)) {
    found->call.bind(Binder(handle, &found->problem));
    if (found->problem.empty()) start(sought, found->call, found);
  }
  return *(known = found);
}

// How shapes are computed, each found once. Calls of open extents have one for each number, so at
// most kMost of them are kept.
template <typename Shape, typename Plan>
class Plans {
 public:
  // The plan of a shape, and whether it is new; `forget` gives back one that is kept no longer.
  template <typename Forget>
  std::pair<Plan*, bool> of(const Shape& shape, const Forget& forget) {
    if (plans_.size() == kMost && !plans_.count(shape)) {
      for (const auto& [_, plan] : plans_) forget(plan);
      plans_.clear();
    }
    auto [place, is_new] = plans_.try_emplace(shape);
    return {&place->second, is_new};
  }

 private:
  static constexpr size_t kMost = 4096;
  std::map<Shape, Plan> plans_;
};

// Whether addresses are multiples of so many bytes.
template <typename... Addresses>
bool aligned(size_t bytes, const Addresses*... addresses) {
  return (... && (reinterpret_cast<uintptr_t>(addresses) % bytes == 0));
}

// Say on the standard error stream that our own kernel runs; returns 1.
int not_computed(const Sought& sought, const std::string& what, const char* why);

// {path, version, problem} of a library. A problem says why it is not used.
tvm::ffi::Array<tvm::ffi::String> told(const Found& found);

// Folders, from Python.
Folders names_of(const tvm::ffi::Array<tvm::ffi::String>& folders);

}  // namespace tvm_sparse
