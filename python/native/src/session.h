// An opened program with its weights, called with tensors in host memory or on its GPU.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bound.h"
#include "engine.h"
#include "manifest.h"
#include "tvm_sparse/runtime.h"

namespace tvm_sparse {

// What clones share: code, weights and their description.
struct Program {
  Manifest manifest;
  tvm::ffi::Module module;
  std::vector<tvm::ffi::Tensor> weights;  // and what is made of them
};

class Session {
 public:
  // threads: that share a call; 0 is the process's own number.
  // instrument: what the virtual machine calls before and after each step, if anything.
  Session(std::shared_ptr<const Program> program, int threads,
          tvm::ffi::Optional<tvm::ffi::Function> instrument = {});

  const std::shared_ptr<const Program>& program() const { return program_; }
  int threads() const { return threads_; }
  // One call at a time; shares no memory with inputs or weights.
  // A program for a GPU runs on `stream`, null for the default one.
  std::vector<tvm::ffi::Tensor> run(const tvm_sparse_tensor* inputs, size_t count, void* stream);
  // A call whose inputs, on the GPU, stay where they are; it is captured on `stream`'s turn.
  std::unique_ptr<const Bound> bind(const tvm_sparse_tensor* inputs, size_t count, void* stream);

 private:
  std::vector<tvm::ffi::Tensor> checked(std::vector<tvm::ffi::Tensor> arguments);
  void move_to_gpu(std::vector<tvm::ffi::Tensor>* inputs);
  std::vector<tvm::ffi::Tensor> called(const std::vector<tvm::ffi::Tensor>& arguments);

  std::shared_ptr<const Program> program_;
  int threads_;
  tvm::ffi::Module machine_;
  tvm::ffi::Function main_;
  std::mutex mutex_;
  // The GPU's memory for inputs of the host: kept, since to free it waits for the GPU.
  std::vector<tvm::ffi::Optional<tvm::ffi::Tensor>> staging_;
};

// Verify an artifact and open it.
std::shared_ptr<const Program> open_artifact(const std::string& directory,
                                             const tvm_sparse_options& options);

}  // namespace tvm_sparse
