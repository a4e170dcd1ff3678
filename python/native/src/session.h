// An opened program with its weights, called with tensors in host memory.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine.h"
#include "manifest.h"
#include "tvm_sparse/runtime.h"

namespace tvm_sparse {

// What clones share: code, weights and their description.
struct Program {
  Manifest manifest;
  tvm::ffi::Module module;
  std::vector<tvm::ffi::Tensor> weights;
};

class Session {
 public:
  // threads: that share a call; 0 is the process's own number.
  Session(std::shared_ptr<const Program> program, int threads);

  const std::shared_ptr<const Program>& program() const { return program_; }
  int threads() const { return threads_; }
  // One call at a time; shares no memory with inputs or weights.
  std::vector<tvm::ffi::Tensor> run(const tvm_sparse_tensor* inputs, size_t count);

 private:
  std::vector<tvm::ffi::Tensor> called(const std::vector<tvm::ffi::Tensor>& arguments);

  std::shared_ptr<const Program> program_;
  int threads_;
  tvm::ffi::Module machine_;
  tvm::ffi::Function main_;
  std::mutex mutex_;
};

// Verify an artifact and open it.
std::shared_ptr<const Program> open_artifact(const std::string& directory,
                                             const tvm_sparse_options& options);

}  // namespace tvm_sparse
