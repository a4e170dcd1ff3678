// Linear layers of 2:4 weights by cuSPARSELt, for the programs that have a branch of their own.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/string.h>

namespace tvm_sparse {

// What the library makes of weights (features, columns) on the GPU, contiguous and float16 or
// bfloat16, of which no four neighbours in a row hold more than two that are not zero.
//
// The tensor is a handle: it has one element, behind which lies as much as the library wants. That
// memory is given back with it. If there is no library, or it does not do this (which is said once
// on the standard error stream), there is nothing behind it, and products by it are not computed.
tvm::ffi::Tensor compressed(const tvm::ffi::Tensor& dense);

// out = x @ w^T + bias + residual, as `epilogue` says (libraries.h); what it does not name is not
// read.
//
// `x` (rows, columns), `residual` and `out` (rows, features) and `bias` (features) are contiguous
// and of one dtype, float16 or bfloat16; `w` is the data of what `compressed` made of
// (features, columns). Sums are float32 and rounded once. It runs on TVM's current stream and takes
// no memory but the `bytes` of `workspace`. Rows that fill up no multiple of eight are computed by
// a second product of the last eight.
//
// Returns 0, or 1 if `out` must be computed otherwise; the reason is said once on the standard
// error stream.
int two_four_linear(void* x, void* w, void* bias, void* residual, void* out, void* workspace,
                    int64_t bytes, int64_t rows, int64_t features, int64_t columns,
                    const tvm::ffi::String& dtype, const tvm::ffi::String& out_dtype, int epilogue);

// {path, version, problem} of the library, which is looked for in `folders`, too. A problem says
// why it is not used.
tvm::ffi::Array<tvm::ffi::String> two_four_library(
    const tvm::ffi::Array<tvm::ffi::String>& folders);

}  // namespace tvm_sparse
