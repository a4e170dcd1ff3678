// Packers: weight matrices, seen as unsigned integers of their width, to the storage of a format.
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

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

// Write the nonzeros of `row` to every lanes-th place of `values` and `columns`, `slots` of them;
// the rest is zero, with the last column again.
template <typename T, typename Index>
TVM_SPARSE_INLINE void PackRow(const T* row, int64_t cols, T magnitude, int64_t slots,
                               int64_t lanes, T* values, Index* columns) {
  int64_t count = 0;
  Index last = 0;
  for (int64_t c = 0; c < cols && count < slots; ++c) {
    if ((row[c] & magnitude) == 0) continue;
    last = static_cast<Index>(c);
    values[count * lanes] = row[c];
    columns[count * lanes] = last;
    ++count;
  }
  for (; count < slots; ++count) {
    values[count * lanes] = 0;
    columns[count * lanes] = last;
  }
}

template <typename T, typename Index>
void PackGroups(const T* weight, Extents size, T magnitude, const int32_t* order, const int64_t* ends,
                int64_t groups, int64_t lanes, T* values, Index* columns) {
  const std::vector<T> empty(size.cols);
  int64_t start = 0;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t row = order[g * lanes + lane];
      const T* source = row < size.rows ? weight + row * size.cols : empty.data();
      const int64_t first = start * lanes + lane;
      PackRow(source, size.cols, magnitude, ends[g] - start, lanes, values + first,
              columns + first);
    }
    start = ends[g];
  }
}

// Fill values and columns (slots, lanes): group g holds rows order[g * lanes ...] in the slots up
// to ends[g]; rows past the last are empty. `magnitude` masks the bits that make a value nonzero.
void PackRows(TensorView weight, int64_t magnitude, TensorView order, TensorView ends,
              TensorView values, TensorView columns) {
  const Extents size = MatrixExtents(weight);
  if (values.ndim() != 2) TVM_FFI_THROW(ValueError) << "values: Expected 2 dimensions.";
  const int64_t slots = values.size(0), lanes = values.size(1);
  const int64_t* last = Checked<int64_t>(ends, "ends", {-1});
  const int64_t groups = ends.size(0);
  const int32_t* rows = Checked<int32_t>(order, "order", {groups * lanes});
  ExpectWithin(rows, groups * lanes, std::max(size.rows, groups * lanes), "order");
  if (!std::is_sorted(last, last + groups) || groups < 1 || last[0] < 0 ||
      last[groups - 1] != slots) {
    TVM_FFI_THROW(ValueError) << "ends: Expected ascending ends up to " << slots << " slots.";
  }
  DispatchWidth(weight, [&](auto zero) {
    using T = decltype(zero);
    const T* source = Checked<T>(weight, "weight", {size.rows, size.cols});
    T* out = Checked<T>(values, "values", {slots, lanes});
    DispatchWidth(columns, [&](auto index) {
      using Index = decltype(index);
      Index* indices = Checked<Index>(columns, "columns", {slots, lanes});
      PackGroups(source, size, static_cast<T>(magnitude), rows, last, groups, lanes, out, indices);
    });
  });
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pack_blocks, PackBlocks);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pack_rows, PackRows);
}  // namespace tvm_sparse
