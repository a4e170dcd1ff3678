#include "engine.h"

#include <dlfcn.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/dtype.h>

#include <cstring>
#include <mutex>

#include "apart.h"
#include "error.h"
#include "host.h"
#include "memory.h"
#include "team.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr int kPooled = 2;  // TVM's allocator that keeps released memory for reuse
constexpr const char* kRuntime = "libtvm_runtime.so";

struct Mapped {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor*) {}
};

struct Aligned {
  Block block{};
  void AllocData(DLTensor* tensor) {
    block = take_block(ffi::GetDataSize(*tensor));
    tensor->data = block.data;
  }
  void FreeData(DLTensor*) { give_block(block); }
};

template <typename Allocator>
ffi::Tensor made(Allocator allocator, const std::vector<int64_t>& shape, const std::string& dtype,
                 DLDevice device) {
  return ffi::Tensor::FromNDAlloc(allocator, ffi::Shape(shape.begin(), shape.end()),
                                  ffi::StringToDLDataType(dtype), device);
}

// The path of the loaded library that holds `symbol`.
std::string path_of(void* symbol) {
  Dl_info info{};
  return symbol && dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
}

std::string engine_path(void* tvm) {
  // Any symbol of TVM's runtime tells its path.
  return path_of(dlsym(tvm, "TVMBackendParallelLaunch"));
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string tvm_version(void* tvm) {
  return wheel_version(engine_path(tvm), "apache_tvm", TVM_SPARSE_BUILT_FOR_TVM);
}

void* runtime() {
  static std::mutex mutex;
  static void* handle = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (handle) return handle;
  handle = dlopen(kRuntime, RTLD_NOW | RTLD_GLOBAL);
  if (!handle) {
    throw Error(TVM_SPARSE_FAILED, "apache-tvm",
                std::string("cannot be loaded (") + dlerror() + ")", "an installed wheel",
                "pip install apache-tvm");
  }
  join_loops(handle);
  if (tvm_version(handle) == TVM_SPARSE_BUILT_FOR_TVM) share_blocks(handle);
  return handle;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> wheel_versions() {
  std::string own = path_of(reinterpret_cast<void*>(&TVMFFIFunctionGetGlobal));
  return {{"apache-tvm/tvm", tvm_version(runtime())},
          {"apache-tvm-ffi/tvm_ffi",
           wheel_version(own, "apache_tvm_ffi", TVM_SPARSE_BUILT_FOR_TVM_FFI)}};
}

void start_engine() { runtime(); }

std::string engine_folder() { return folder_of(engine_path(runtime())); }

std::string beside(const std::string& folder) {
  return folder_of(path_of(reinterpret_cast<void*>(&start_engine))) + "/../../" + folder;
}

ffi::Function registered(const char* name) { return apart(ffi::Function::GetGlobalRequired(name)); }

ffi::Module open_program(const std::string& name) {
  auto opened = registered("ffi.Module.load_from_file.so")(name, "so").cast<ffi::Module>();
  registered("ffi.ModuleGlobalsAdd")(opened);
  return opened;
}

void* weights_of(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* begin = handle ? dlsym(handle, "tvm_sparse_weights") : nullptr;
  if (!begin) throw bad_artifact(name, "no weight section", "a library of ours");
  return begin;
}

ffi::Module new_machine(const ffi::Module& program, bool on_gpu) {
  auto load = program->GetFunction("vm_load_executable");
  if (!load.has_value()) throw bad_artifact("library", "no program in it", "a library of ours");
  auto machine = apart(load.value())().cast<ffi::Module>();
  auto begin = apart(machine->GetFunction("vm_initialization").value());
  constexpr int kCpu = kDLCPU, kCuda = kDLCUDA;
  if (on_gpu) {
    begin(kCuda, 0, kPooled, kCpu, 0, kPooled);
  } else {
    begin(kCpu, 0, kPooled);
  }
  return machine;
}

ffi::Tensor borrowed(void* data, const std::vector<int64_t>& shape, const std::string& dtype,
                     DLDevice device) {
  return made(Mapped{data}, shape, dtype, device);
}

ffi::Tensor owned(const void* data, const std::vector<int64_t>& shape, const std::string& dtype) {
  ffi::Tensor result = made(Aligned{}, shape, dtype, DLDevice{kDLCPU, 0});
  if (data) std::memcpy(result.data_ptr(), data, nbytes(result));
  return result;
}

ffi::Tensor empty(ffi::Shape shape, DLDataType dtype) {
  return ffi::Tensor::FromNDAlloc(Aligned{}, shape, dtype, DLDevice{kDLCPU, 0});
}

size_t nbytes(const ffi::Tensor& tensor) { return ffi::GetDataSize(tensor); }

bool inside(const ffi::Tensor& tensor, const ffi::Tensor& other) {
  auto begin = reinterpret_cast<uintptr_t>(other.data_ptr());
  auto address = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  return begin <= address && address < begin + nbytes(other);
}

std::string dtype_name(const ffi::Tensor& tensor) {
  return std::string(ffi::DLDataTypeToString(tensor.dtype()));
}

}  // namespace tvm_sparse
