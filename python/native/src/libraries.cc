#include "libraries.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr int kNow = RTLD_NOW | RTLD_LOCAL;

// Where a library may lie, in order, and how it is opened there.
std::vector<std::pair<std::string, int>> places(const Sought& sought, const Folders& folders) {
  std::vector<std::pair<std::string, int>> found;
  for (const char* file : sought.files) found.emplace_back(file, kNow | RTLD_NOLOAD);
  for (const std::string& folder : folders) {
    for (const char* file : sought.files) found.emplace_back(folder + "/" + file, kNow);
  }
  for (const char* wheel : sought.wheels) {
    for (const char* file : sought.files) found.emplace_back(beside(wheel) + file, kNow);
  }
  for (const char* file : sought.files) found.emplace_back(file, kNow);
  return found;
}

std::string path_of(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
}

}  // namespace

void* Binder::symbol(const char* name) {
  void* found = dlsym(library_, name);
  if (!found && problem_->empty()) *problem_ = std::string("has no function ") + name;
  return found;
}

void* opened(const Sought& sought, const Folders& folders, std::string* problem) {
  const char* asked = std::getenv(sought.variable);
  const std::string named = asked ? asked : "";
  if (named == "off") {
    *problem = std::string("turned off by ") + sought.variable;
    return nullptr;
  }
  if (!named.empty()) {
    void* handle = dlopen(named.c_str(), kNow);
    const char* why = handle ? nullptr : dlerror();
    if (!handle) *problem = std::string("cannot be loaded (") + (why ? why : named) + ")";
    return handle;
  }
  for (const auto& [name, mode] : places(sought, folders)) {
    if (void* handle = dlopen(name.c_str(), mode)) return handle;
  }
  *problem = std::string("not found: pip install ") + sought.package;
  return nullptr;
}

void start(const Sought& sought, const Functions& call, Found* found) {
  found->path = path_of(reinterpret_cast<const void*>(call.status_name));
  found->version = call.number();
  if (found->version < sought.oldest) {
    found->problem = "too old (" + std::to_string(found->version) + " in " + found->path +
                     "): version " + sought.versions + " is needed";
  } else if (const Status status = call.begin(&found->handle)) {
    found->problem = std::string("does not start (") + call.status_name(status) + ")";
  }
}

int not_computed(const Sought& sought, const std::string& what, const char* why) {
  std::fprintf(stderr, "tvm-sparse: %s does not compute %s (%s); our own kernel runs\n",
               sought.name, what.c_str(), why);
  return 1;
}

ffi::Array<ffi::String> told(const Found& found) {
  const std::string version = found.version ? std::to_string(found.version) : "";
  return {ffi::String(found.path), ffi::String(version), ffi::String(found.problem)};
}

Folders names_of(const ffi::Array<ffi::String>& folders) {
  Folders names;
  for (const ffi::String& folder : folders) names.emplace_back(folder);
  return names;
}

}  // namespace tvm_sparse
