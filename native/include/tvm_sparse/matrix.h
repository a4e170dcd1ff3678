// Weight matrices of any element type, seen as unsigned integers of the same width.
#pragma once
#include <cstdint>

#include "check.h"

namespace tvm_sparse {

// Call `visit` with a zero of the unsigned integer as wide as the elements of `tensor`.
template <typename Visit>
void DispatchWidth(const tvm::ffi::TensorView& tensor, Visit visit) {
  switch (tensor.dtype().bits) {
    case 8: return visit(uint8_t{0});
    case 16: return visit(uint16_t{0});
    case 32: return visit(uint32_t{0});
    default: return visit(uint64_t{0});
  }
}

struct Extents {
  int64_t rows, cols;
};

inline Extents MatrixExtents(const tvm::ffi::TensorView& weight) {
  if (weight.ndim() != 2) TVM_FFI_THROW(ValueError) << "weight: Expected a matrix.";
  return {weight.size(0), weight.size(1)};
}

}  // namespace tvm_sparse
