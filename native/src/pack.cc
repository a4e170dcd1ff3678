// Packers: dense weight matrices to the storage that kernels read. One function a format.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>

namespace tvm_sparse {
namespace {

// Largest number of nonzeros in any bank of `bank` columns of the fp32 matrix (rows, cols).
int64_t MaxBankCount(tvm::ffi::TensorView weight, int64_t bank) {
  const int64_t rows = weight.size(0), cols = weight.size(1);
  const float* w = static_cast<const float*>(weight.data_ptr());
  int64_t most = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t start = 0; start < cols; start += bank) {
      const int64_t end = start + bank < cols ? start + bank : cols;
      int64_t count = 0;
      for (int64_t c = start; c < end; ++c) count += w[r * cols + c] != 0.0f;
      if (count > most) most = count;
    }
  }
  return most;
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(max_bank_count, MaxBankCount);
}  // namespace tvm_sparse
