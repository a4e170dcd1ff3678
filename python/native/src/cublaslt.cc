#include "cublaslt.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "engine.h"

namespace tvm_sparse {
namespace cublaslt {
namespace {

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char* kWheels[] = {"nvidia/cu13/lib/", "nvidia/cublas/lib/"};
constexpr const char* kVariable = "TVM_SPARSE_CUBLASLT";
constexpr int kNow = RTLD_NOW | RTLD_LOCAL;

void* opened(const std::vector<std::string>& folders, std::string* problem) {
  const char* asked = std::getenv(kVariable);
  const std::string named = asked ? asked : "";
  if (named == "off") {
    *problem = std::string("turned off by ") + kVariable;
    return nullptr;
  }
  std::vector<std::pair<std::string, int>> places;
  if (!named.empty()) {
    places.emplace_back(named, kNow);
  } else {
    for (const char* name : kNames) places.emplace_back(name, kNow | RTLD_NOLOAD);
    for (const std::string& folder : folders) {
      for (const char* name : kNames) places.emplace_back(folder + "/" + name, kNow);
    }
    for (const char* wheel : kWheels) {
      for (const char* name : kNames) places.emplace_back(beside(wheel) + name, kNow);
    }
    for (const char* name : kNames) places.emplace_back(name, kNow);
  }
  for (const auto& [name, mode] : places) {
    if (void* handle = dlopen(name.c_str(), mode)) return handle;
  }
  if (named.empty()) {
    *problem = "not found: pip install nvidia-cublas";
  } else {
    const char* why = dlerror();
    *problem = std::string("cannot be loaded (") + (why ? why : named) + ")";
  }
  return nullptr;
}

template <typename Pointer>
bool bind(void* handle, const char* name, Pointer* pointer, std::string* problem) {
  *pointer = reinterpret_cast<Pointer>(dlsym(handle, name));
  if (!*pointer && problem->empty()) *problem = std::string("has no function ") + name;
  return *pointer != nullptr;
}

void bind_all(void* handle, Functions* call, std::string* problem) {
  bind(handle, "cublasLtGetVersion", &call->version, problem);
  bind(handle, "cublasLtGetStatusName", &call->status_name, problem);
  bind(handle, "cublasLtCreate", &call->create, problem);
  bind(handle, "cublasLtMatmulDescCreate", &call->product, problem);
  bind(handle, "cublasLtMatmulDescSetAttribute", &call->set_product, problem);
  bind(handle, "cublasLtMatmulDescDestroy", &call->forget_product, problem);
  bind(handle, "cublasLtMatrixLayoutCreate", &call->matrix, problem);
  bind(handle, "cublasLtMatrixLayoutDestroy", &call->forget_matrix, problem);
  bind(handle, "cublasLtMatmulPreferenceCreate", &call->preference, problem);
  bind(handle, "cublasLtMatmulPreferenceSetAttribute", &call->set_preference, problem);
  bind(handle, "cublasLtMatmulPreferenceDestroy", &call->forget_preference, problem);
  bind(handle, "cublasLtMatmulAlgoGetHeuristic", &call->find, problem);
  bind(handle, "cublasLtMatmul", &call->multiply, problem);
}

std::string path_of(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
}

Library open(const std::vector<std::string>& folders) {
  Library found;
  void* handle = opened(folders, &found.problem);
  if (!handle) return found;
  bind_all(handle, &found.call, &found.problem);
  if (!found.problem.empty()) return found;
  found.path = path_of(reinterpret_cast<const void*>(found.call.version));
  found.version = found.call.version();
  if (found.version < kOldest) {
    found.problem = "too old (" + std::to_string(found.version) + " in " + found.path +
                    "): version 12 or 13 is needed";
  } else if (const Status status = found.call.create(&found.handle)) {
    found.problem = std::string("does not start (") + found.call.status_name(status) + ")";
  }
  return found;
}

}  // namespace

const Library& library(const std::vector<std::string>& folders) {
  static std::mutex mutex;
  static const Library* found = nullptr;  // never closed
  std::lock_guard<std::mutex> lock(mutex);
  if (!found) found = new Library(open(folders));
  return *found;
}

}  // namespace cublaslt
}  // namespace tvm_sparse
