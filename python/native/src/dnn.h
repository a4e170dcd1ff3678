// Convolutions by cuDNN, for the programs that have a branch of their own besides.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

namespace tvm_sparse {

// out = relu(conv(x, w) + bias + residual), as `epilogue` says (libraries.h); what it does not name
// is not read, and without a bias there is nothing behind.
//
// Arguments: x, w, bias, residual, out, workspace, its bytes, batch, then the input's height, width
// and channels, features, taps, borders, strides and dilation (down and across each), the dtypes of
// what is read and written, epilogue.
//
// `x` (batch, height, width, channels), `w` (features, taps down, taps across, channels),
// `residual` and `out` (batch, out height, out width, features) and `bias` (features) are
// contiguous and of one dtype: float32, float16 or bfloat16. The input has `borders` zeros on
// either side of an axis. Sums are float32, products of float32 exact, and results are rounded
// once. It runs on TVM's current stream and takes no memory but the workspace.
//
// Returns 0, or 1 if nothing was computed; the reason is said once on the standard error stream.
void convolution(tvm::ffi::PackedArgs arguments, tvm::ffi::Any* result);

// {path, version, problem} of the library, which is looked for in `folders`, too. A problem says
// why it is not used.
tvm::ffi::Array<tvm::ffi::String> dnn_library(const tvm::ffi::Array<tvm::ffi::String>& folders);

}  // namespace tvm_sparse
