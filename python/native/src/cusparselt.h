// cuSPARSELt, looked up when a program first needs it and never linked.
//
// Names, numbers and layouts are those of cusparseLt.h of cuSPARSELt 0.7.1 to 0.10.0 (the wheels
// nvidia-cusparselt-cu12 and -cu13), so that none is needed to build this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libraries.h"

namespace tvm_sparse {
namespace cusparselt {

constexpr int kHalf = 2, kBfloat = 14;     // cudaDataType
constexpr int kColumnwise = 1;             // CUSPARSE_ORDER_COL
constexpr int kRowwise = 2;                // CUSPARSE_ORDER_ROW
constexpr int kAsIs = 0, kTransposed = 1;  // cusparseOperation_t
constexpr int kHalfZeros = 0;              // CUSPARSELT_SPARSITY_50_PERCENT: two of four
constexpr int kSumsOfFloats = 2;           // CUSPARSE_COMPUTE_32F
constexpr int kBiasPointer = 8;            // attribute of a product
constexpr int kDefault = 0;                // CUSPARSELT_MATMUL_ALG_DEFAULT
constexpr int kLeft = 1;                   // the sparse matrix is the left one
constexpr Status kNoMemory = 2, kInvalid = 3, kNotSupported = 10;

// A descriptor or a plan, in memory of ours. They took 1024 bytes once, and 512 from 0.8 on.
struct Opaque {
  alignas(16) unsigned char data[2048];
};

struct Call : Functions {
  Status (*property)(int which, int* value);
  Status (*init)(Handle);
  Status (*structured)(Handle library, Handle matrix, int64_t rows, int64_t columns, int64_t pitch,
                       uint32_t alignment, int type, int order, int sparsity);
  Status (*dense)(Handle library, Handle matrix, int64_t rows, int64_t columns, int64_t pitch,
                  uint32_t alignment, int type, int order);
  Status (*forget_matrix)(Handle matrix);
  Status (*product)(Handle library, Handle product, int of_a, int of_b, Handle a, Handle b,
                    Handle c, Handle d, int sums);
  Status (*set_product)(Handle library, Handle product, int attribute, const void* value,
                        size_t bytes);
  Status (*select)(Handle library, Handle selection, Handle product, int algorithm);
  Status (*plan)(Handle library, Handle plan, Handle product, Handle selection);
  Status (*forget_plan)(Handle plan);
  Status (*room)(Handle library, Handle plan, size_t* bytes);
  Status (*sizes)(Handle library, Handle matrix, size_t* compressed, size_t* buffer);
  Status (*compress)(Handle library, Handle matrix, int is_left, int operation, const void* dense,
                     void* compressed, void* buffer, void* stream);
  Status (*multiply)(Handle library, Handle plan, const void* alpha, const void* a, const void* b,
                     const void* beta, const void* c, void* d, void* workspace, void** streams,
                     int32_t count);

  void bind(Binder binder);
  size_t number() const override;
  Status begin(Handle* handle) const override;
};

// What is looked for: versions are a hundred times the minor one, and a million times the major.
extern const Sought kSought;

}  // namespace cusparselt
}  // namespace tvm_sparse
