// cuBLASLt, looked up when a program first needs it and never linked.
//
// Names, numbers and layouts are those of cublasLt.h, so that no toolkit is needed to build this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libraries.h"

namespace tvm_sparse {
namespace cublaslt {

constexpr Status kSuccess = 0;
constexpr int kFloat = 0, kHalf = 2, kBfloat = 14;              // cudaDataType
constexpr int kSumsOfFloats = 68;                               // CUBLAS_COMPUTE_32F: never TF32
constexpr int kEpilogue = 7, kBiasPointer = 8, kBiasType = 26;  // attributes of a product
constexpr int kNothing = 1, kRelu = 2, kBias = 4;               // what an epilogue is made of
constexpr int kMostWorkspace = 1, kReductions = 3;              // attributes of a preference
constexpr int kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;
constexpr uint32_t kReduceSums = 2;  // partial sums are added as floats, before they are rounded

struct Algorithm {
  uint64_t data[8];
};

struct Choice {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

struct Call : Functions {
  Status (*product)(Handle*, int sums, int scale);
  Status (*set_product)(Handle, int attribute, const void* value, size_t bytes);
  Status (*forget_product)(Handle);
  Status (*matrix)(Handle*, int type, uint64_t rows, uint64_t columns, int64_t pitch);
  Status (*forget_matrix)(Handle);
  Status (*preference)(Handle*);
  Status (*set_preference)(Handle, int attribute, const void* value, size_t bytes);
  Status (*forget_preference)(Handle);
  Status (*find)(Handle library, Handle product, Handle a, Handle b, Handle c, Handle d,
                 Handle preference, int most, Choice* found, int* count);
  Status (*multiply)(Handle library, Handle product, const void* alpha, const void* a, Handle of_a,
                     const void* b, Handle of_b, const void* beta, const void* c, Handle of_c,
                     void* d, Handle of_d, const Algorithm* algorithm, void* workspace,
                     size_t workspace_bytes, void* stream);

  void bind(Binder binder);
};

// What is looked for: versions are ten thousand times the major one.
extern const Sought kSought;

}  // namespace cublaslt
}  // namespace tvm_sparse
