// NVIDIA GPUs: TVM's CUDA runtime, whether the GPU fits an artifact, copies, and whose turn it is.
#pragma once

#include <tvm/ffi/container/tensor.h>

#include <mutex>
#include <string>
#include <vector>

namespace tvm_sparse {

constexpr DLDevice kHost{kDLCPU, 0};
constexpr DLDevice kGpu{kDLCUDA, 0};

// Whether a GPU of a compute capability runs machine code for `arch`: "sm_XY" runs on the same
// major version X from Y on, "sm_XYa" on X.Y alone.
bool runs(const std::string& arch, int major, int minor);

// Load TVM's CUDA runtime, and return the place of the best of several programs for the GPU: the
// one with code for the newest architecture that runs here, and of equals for that alone.
//
// offered: the architectures that each program has code for; where: names the artifact. Raises an
// Error where the GPU runs none of them.
size_t best_for_gpu(const std::vector<std::vector<std::string>>& offered, const std::string& where);

// Refuse a GPU that runs none of `archs`, and take it for C and C++; `where` names the artifact.
void require_gpu(const std::vector<std::string>& archs, const std::string& where);

// Whether Python may run programs on the GPU: the language that asked first may, since turns of one
// do not wait for those of the other.
bool taken_by_python();

// A new tensor on `device` with what `tensor` holds, complete where it lies on the host. It wants a
// turn.
tvm::ffi::Tensor copied(const tvm::ffi::Tensor& tensor, DLDevice device);

// Copy a tensor into an equal one on the GPU. It wants a turn.
void copy_to_gpu(const tvm::ffi::Tensor& tensor, const tvm::ffi::Tensor& result);

// A new tensor on the GPU.
tvm::ffi::Tensor empty_on_gpu(tvm::ffi::Shape shape, DLDataType dtype);

// A call's turn on the GPU: calls of a process follow each other there, each on its own stream.
//
// The host only launches kernels, and TVM's pool lends what the host is done with to whoever asks
// next, on any stream. So a call on another stream than the last one waits for it, on the GPU.
class Turn {
 public:
  explicit Turn(void* stream);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  void* before_ = nullptr;
};

}  // namespace tvm_sparse
