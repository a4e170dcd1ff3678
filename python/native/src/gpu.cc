#include "gpu.h"

#include <dlfcn.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "bound.h"
#include "engine.h"
#include "error.h"

namespace tvm_sparse {
namespace {

namespace ffi = tvm::ffi;

constexpr const char* kCudart = "libcudart.so.13";
constexpr int kExists = 0, kComputeVersion = 4;  // what TVM calls these properties

enum Language { kNone, kPython, kNative };
std::atomic<int> language{kNone};

std::mutex turns;
void* last = nullptr;  // the stream of the last turn

bool taken_by(Language asked) {
  int expected = kNone;
  return language.compare_exchange_strong(expected, asked) || expected == asked;
}

void* opened(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL); }

// Load TVM's CUDA runtime, which registers itself; it must never be closed.
void load_cuda() {
  static std::mutex mutex;
  static bool done = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (done) return;
  start_engine();
  // NVIDIA's wheel stands beside ours, where the loader does not look.
  bool found = opened(kCudart) || opened(beside("nvidia/cu13/lib/") + kCudart);
  if (!found || !opened(engine_folder() + "/libtvm_runtime_cuda.so")) {
    throw Error(TVM_SPARSE_FAILED, "CUDA", std::string("cannot be loaded (") + dlerror() + ")",
                "an NVIDIA driver and the CUDA 13 runtime",
                "install the driver, and pip install nvidia-cuda-runtime");
  }
  watch_machines();
  done = true;
}

// What the better of two architectures that run here has more of: the minor version, then "alone".
int rank_of(const std::string& arch) {
  bool alone = arch.back() == 'a';
  return 1 + 2 * (arch[arch.size() - 1 - alone] - '0') + alone;
}

// Let work that is put on `stream` from now on wait for what `other` has to do.
void follow(void* stream, void* other) {
  if (stream == other) return;
  registered("runtime.Device_StreamSyncFromTo")(kGpu, reinterpret_cast<int64_t>(other),
                                                reinterpret_cast<int64_t>(stream));
}

void* current() { return TVMFFIEnvGetStream(kDLCUDA, 0); }

// TVM copies on the default stream, for which others do not wait by themselves.
void copy(const ffi::Tensor& tensor, const ffi::Tensor& result) {
  follow(nullptr, current());
  registered("runtime.TVMTensorCopyFromTo")(tensor, result);
}

}  // namespace

bool taken_by_python() { return taken_by(kPython); }

bool runs(const std::string& arch, int major, int minor) {
  bool alone = !arch.empty() && arch.back() == 'a';
  size_t begin = arch.find('_') + 1, end = arch.size() - alone;
  if (begin == 0 || end < begin + 2) return false;
  int made_major = std::atoi(arch.substr(begin, end - begin - 1).c_str());
  int made_minor = arch[end - 1] - '0';
  return made_major == major && (alone ? made_minor == minor : made_minor <= minor);
}

size_t best_for_gpu(const std::vector<std::vector<std::string>>& offered,
                    const std::string& where) {
  load_cuda();
  auto property = registered("runtime.GetDeviceAttr");
  if (!property(static_cast<int>(kDLCUDA), 0, kExists).cast<int64_t>()) {
    throw Error(TVM_SPARSE_FAILED, "CUDA", "no GPU found", "an NVIDIA GPU");
  }
  std::string version(property(static_cast<int>(kDLCUDA), 0, kComputeVersion).cast<ffi::String>());
  size_t dot = version.find('.');
  int major = std::atoi(version.c_str()), minor = std::atoi(version.c_str() + dot + 1);
  size_t best = 0;
  int most = 0;
  std::string made;
  for (size_t place = 0; place < offered.size(); ++place) {
    for (const std::string& arch : offered[place]) {
      made += (made.empty() ? "" : ", ") + arch;
      int rank = runs(arch, major, minor) ? rank_of(arch) : 0;
      if (rank > most) {
        most = rank;
        best = place;
      }
    }
  }
  if (most) return best;
  std::string here = "sm_" + std::to_string(major) + std::to_string(minor);
  throw bad_artifact(where, "made for " + made + ", this GPU is " + here,
                     "the same major version, and not a newer minor one",
                     "compile for cuda:" + here);
}

void require_gpu(const std::vector<std::string>& archs, const std::string& where) {
  best_for_gpu({archs}, where);
  // Last: what cannot run here leaves the GPU to the other language.
  if (!taken_by(kNative)) {
    throw Error(TVM_SPARSE_FAILED, "CUDA", "Python runs programs on the GPU in this process",
                "programs that run there from one language", "open the artifact from Python");
  }
}

ffi::Tensor empty_on_gpu(ffi::Shape shape, DLDataType dtype) {
  return registered("runtime.TVMTensorAllocWithScope")(shape, dtype, kGpu, nullptr)
      .cast<ffi::Tensor>();
}

void copy_to_gpu(const ffi::Tensor& tensor, const ffi::Tensor& result) {
  copy(tensor, result);
  follow(current(), nullptr);
}

ffi::Tensor copied(const ffi::Tensor& tensor, DLDevice device) {
  if (device.device_type == kDLCUDA) {
    ffi::Tensor result = empty_on_gpu(tensor.shape(), tensor.dtype());
    copy_to_gpu(tensor, result);
    return result;
  }
  ffi::Tensor result = empty(tensor.shape(), tensor.dtype());
  copy(tensor, result);
  registered("runtime.Device_StreamSync")(kGpu, int64_t{0});
  return result;
}

Turn::Turn(void* stream) : lock_(turns) {
  follow(stream, last);
  last = stream;
  TVMFFIEnvSetStream(kDLCUDA, 0, stream, &before_);
}

Turn::~Turn() { TVMFFIEnvSetStream(kDLCUDA, 0, before_, nullptr); }

}  // namespace tvm_sparse
