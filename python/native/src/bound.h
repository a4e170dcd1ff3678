// Calls whose inputs and outputs stay where they are, as one CUDA graph each.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <memory>
#include <vector>

namespace tvm_sparse {

// Let virtual machines that are made from now on be captured whole: while a call is, they launch
// no graphs of their own, and what they allocate is kept for the graph. For once it is loaded.
void watch_machines();

// A call of `main`, captured.
class Bound {
 public:
  // Calls `main` once as it is, which loads what it needs, then captures a call. It wants a turn.
  // Raises an Error if it cannot be captured, or hands out memory of its arguments.
  Bound(const tvm::ffi::Function& main, const std::vector<tvm::ffi::Tensor>& arguments);
  ~Bound();
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  // Put the whole call on the current stream. It wants a turn.
  void replay() const;
  const std::vector<tvm::ffi::Tensor>& outputs() const { return outputs_; }

 private:
  void capture();

  tvm::ffi::Function main_;  // keeps the kernels loaded
  std::vector<tvm::ffi::Tensor> arguments_, outputs_;
  std::vector<tvm::ffi::Any> kept_;  // the memory that the graph works in
  void* graph_ = nullptr;
};

// For Python: the function that replays, and the outputs.
tvm::ffi::Array<tvm::ffi::Any> bound(tvm::ffi::Function main,
                                     tvm::ffi::Array<tvm::ffi::Tensor> arguments);

}  // namespace tvm_sparse
