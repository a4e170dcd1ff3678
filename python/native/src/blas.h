// Linear layers by cuBLASLt, for the programs that have a branch of their own besides.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/string.h>

namespace tvm_sparse {

// out = relu(x @ w + bias + residual), as `epilogue` says (libraries.h); what it does not name is
// not read.
//
// `x` (rows, columns), `residual` and `out` (rows, features) and `bias` (features) are contiguous;
// `w` is (columns, features) with rows that are `pitch` elements apart. `dtype` is that of x and w,
// `out_dtype` of the others; both may be float32, or float16 or bfloat16. Sums are float32 and
// rounded once. It runs on TVM's current stream and takes no memory but the `bytes` of `workspace`.
//
// Returns 0, or 1 if nothing was computed; the reason is said once on the standard error stream.
int linear(void* x, void* w, void* bias, void* residual, void* out, void* workspace, int64_t bytes,
           int64_t rows, int64_t features, int64_t columns, int64_t pitch,
           const tvm::ffi::String& dtype, const tvm::ffi::String& out_dtype, int epilogue);

// {path, version, problem} of the library, which is looked for in `folders`, too. A problem says
// why it is not used.
tvm::ffi::Array<tvm::ffi::String> blas_library(const tvm::ffi::Array<tvm::ffi::String>& folders);

}  // namespace tvm_sparse
