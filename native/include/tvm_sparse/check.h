// Checks of tensors that Python hands over: extents, element width, contiguity.
#pragma once
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <cstdint>
#include <initializer_list>

// One function, compiled for several instruction sets; the loader picks (glibc ifunc). Baseline
// x86-64 has no popcount instruction, and the scans are made of popcounts.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define TVM_SPARSE_MULTIVERSION __attribute__((target_clones("avx2", "default")))
#else
#define TVM_SPARSE_MULTIVERSION
#endif
#define TVM_SPARSE_INLINE inline __attribute__((always_inline))

namespace tvm_sparse {

// Return the data of `tensor` after checking that it is contiguous, has `shape` (-1: any extent)
// and elements as wide as T. Python passes floats as unsigned integers of the same width.
template <typename T>
T* Checked(const tvm::ffi::TensorView& tensor, const char* name,
           std::initializer_list<int64_t> shape) {
  if (tensor.dtype().bits != 8 * static_cast<int>(sizeof(T)) || tensor.dtype().lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << ": Expected " << 8 * sizeof(T) << "-bit elements. Got "
                             << static_cast<int>(tensor.dtype().bits) << "-bit elements.";
  }
  if (tensor.ndim() != static_cast<int32_t>(shape.size())) {
    TVM_FFI_THROW(ValueError) << name << ": Expected " << shape.size() << " dimensions. Got "
                              << tensor.ndim() << ".";
  }
  int32_t axis = 0;
  for (const int64_t extent : shape) {
    if (extent >= 0 && tensor.size(axis) != extent) {
      TVM_FFI_THROW(ValueError) << name << ": Expected extent " << extent << " on axis " << axis
                                << ". Got " << tensor.size(axis) << ".";
    }
    ++axis;
  }
  if (!tensor.IsContiguous()) TVM_FFI_THROW(ValueError) << name << ": Expected contiguous data.";
  return static_cast<T*>(tensor.data_ptr());
}

inline void ExpectPositive(int64_t value, const char* name) {
  if (value < 1) TVM_FFI_THROW(ValueError) << name << ": Expected at least 1. Got " << value << ".";
}

}  // namespace tvm_sparse
