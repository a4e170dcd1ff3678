// Tensors of a caller, checked against their specifications.
#pragma once

#include <vector>

#include "engine.h"
#include "manifest.h"
#include "tvm_sparse/runtime.h"

namespace tvm_sparse {

// The inputs as aligned tensors; memory that is aligned is used where it lies. Raises an Error.
std::vector<tvm::ffi::Tensor> accepted(const Manifest& manifest, const tvm_sparse_tensor* inputs,
                                       size_t count);

}  // namespace tvm_sparse
