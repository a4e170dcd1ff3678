// Packers: weight matrices, seen as unsigned integers of their width, to the storage of a format.
#include <tvm/ffi/function.h>

#include <algorithm>

#include "tvm_sparse/bits.h"
#include "tvm_sparse/matrix.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

void ExpectWithin(const int32_t* values, int64_t count, int64_t limit, const char* name) {
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] < 0 || values[i] >= limit) {
      TVM_FFI_THROW(ValueError) << name << ": Expected 0 to " << limit - 1 << ". Got " << values[i]
                                << ".";
    }
  }
}

// Copy block (row, col) of `weight` transposed to `out` (S, R). A block that would pass the last
// column is moved left; columns it has in common with its neighbour, and rows past the end, are 0.
template <typename T>
TVM_SPARSE_INLINE void PackBlock(const T* weight, Extents size, int64_t row, int64_t col,
                                 int64_t block_rows, int64_t block_cols, T* out) {
  const int64_t own = col * block_cols, start = std::min(own, size.cols - block_cols);
  const int64_t height = std::min(block_rows, size.rows - row * block_rows);
  std::fill_n(out, block_rows * block_cols, T{0});
  for (int64_t r = 0; r < height; ++r) {
    const T* source = weight + (row * block_rows + r) * size.cols + start;
    for (int64_t s = own - start; s < block_cols; ++s) out[s * block_rows + r] = source[s];
  }
}

// Fill values (slots, S, R) with the block of block row `owner` and block column `columns` of each
// slot that is `used`, others with zeros.
void PackBlocks(TensorView weight, TensorView owner, TensorView columns, TensorView used,
                TensorView values) {
  const Extents size = MatrixExtents(weight);
  if (values.ndim() != 3) TVM_FFI_THROW(ValueError) << "values: Expected 3 dimensions.";
  const int64_t slots = values.size(0), s = values.size(1), r = values.size(2);
  if (s < 1 || r < 1 || s > size.cols) TVM_FFI_THROW(ValueError) << "values: No such blocks.";
  const int32_t* rows = Checked<int32_t>(owner, "owner", {slots});
  const int32_t* cols = Checked<int32_t>(columns, "columns", {slots});
  const uint8_t* kept = Checked<uint8_t>(used, "used", {slots});
  ExpectWithin(rows, slots, CeilDiv(size.rows, r), "owner");
  ExpectWithin(cols, slots, CeilDiv(size.cols, s), "columns");
  DispatchWidth(weight, [&](auto zero) {
    using T = decltype(zero);
    const T* source = Checked<T>(weight, "weight", {size.rows, size.cols});
    T* out = Checked<T>(values, "values", {slots, s, r});
    for (int64_t i = 0; i < slots; ++i, out += s * r) {
      if (kept[i]) {
        PackBlock(source, size, rows[i], cols[i], r, s, out);
      } else {
        std::fill_n(out, s * r, T{0});
      }
    }
  });
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pack_blocks, PackBlocks);
}  // namespace tvm_sparse
