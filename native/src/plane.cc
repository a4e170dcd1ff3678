// Bit plane of nonzeros, and how often rows, columns and their neighbours are nonzero.
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstring>

#include "tvm_sparse/bits.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

// Flags of up to 255 rows are summed in bytes before they are added to the 64-bit counts.
constexpr int64_t kRowsPerFlush = 255;

struct Outputs {
  uint64_t* bits;      // (rows, words)
  int64_t* row_count;  // (rows): nonzeros
  int64_t* row_pair;   // (rows): columns nonzero in this row and in the row above
  int64_t* col_count;  // (cols)
  int64_t* col_pair;   // (cols): rows nonzero in this column and in the column to the left
};

struct ByteSums {
  explicit ByteSums(int64_t cols) : count(cols), pair(cols) {}
  std::vector<uint8_t> count, pair;

  TVM_SPARSE_INLINE void Flush(const Outputs& out) {
    for (size_t c = 0; c < count.size(); ++c) {
      out.col_count[c] += count[c];
      out.col_pair[c] += pair[c];
    }
    std::fill(count.begin(), count.end(), 0);
    std::fill(pair.begin(), pair.end(), 0);
  }
};

// Set flags[c] to whether values[c] is nonzero; return whether any value is not finite.
template <typename T>
TVM_SPARSE_INLINE bool FlagRow(const T* values, int64_t cols, T magnitude, T exponent,
                               uint8_t* flags) {
  T bad = 0;
  for (int64_t c = 0; c < cols; ++c) {
    flags[c] = (values[c] & magnitude) != 0;
    bad |= static_cast<T>((values[c] & exponent) == exponent);
  }
  return exponent != 0 && bad != 0;
}

// Gather the lowest bit of each of 64 bytes: the product moves bit 0 of byte i to bit 56 + i.
TVM_SPARSE_INLINE uint64_t PackWord(const uint8_t* flags) {
  uint64_t word = 0;
  for (int byte = 0; byte < 8; ++byte) {
    uint64_t eight;
    std::memcpy(&eight, flags + 8 * byte, 8);
    word |= (eight * 0x0102040810204080u) >> 56 << (8 * byte);
  }
  return word;
}

template <typename T>
TVM_SPARSE_INLINE int64_t ScanRows(const T* weight, int64_t rows, int64_t cols, T magnitude,
                                   T exponent, const Outputs& out) {
  const int64_t words = Words(cols);
  std::vector<uint8_t> flags(64 * words + 1);  // flags[0] stands left of the first column
  ByteSums sums(cols);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = weight + r * cols;
    if (FlagRow(row, cols, magnitude, exponent, flags.data() + 1)) {
      return r * cols + (std::find_if(row, row + cols,
                                      [exponent](T v) { return (v & exponent) == exponent; }) -
                         row);
    }
    for (int64_t c = 0; c < cols; ++c) {
      sums.count[c] += flags[c + 1];
      sums.pair[c] += flags[c + 1] & flags[c];
    }
    uint64_t* bits = out.bits + r * words;
    int64_t count = 0, pair = 0;
    for (int64_t w = 0; w < words; ++w) {
      bits[w] = PackWord(flags.data() + 1 + 64 * w);
      count += __builtin_popcountll(bits[w]);
      if (r > 0) pair += __builtin_popcountll(bits[w] & bits[w - words]);
    }
    out.row_count[r] = count;
    out.row_pair[r] = pair;
    if ((r + 1) % kRowsPerFlush == 0) sums.Flush(out);
  }
  sums.Flush(out);
  return -1;
}

#define TVM_SPARSE_SCAN(NAME, T)                                                                 \
  TVM_SPARSE_MULTIVERSION int64_t NAME(const T* weight, int64_t rows, int64_t cols, T magnitude, \
                                       T exponent, const Outputs& out) {                         \
    return ScanRows<T>(weight, rows, cols, magnitude, exponent, out);                            \
  }
TVM_SPARSE_SCAN(Scan8, uint8_t)
TVM_SPARSE_SCAN(Scan16, uint16_t)
TVM_SPARSE_SCAN(Scan32, uint32_t)
TVM_SPARSE_SCAN(Scan64, uint64_t)

// Fill the outputs from `weight` (rows, cols), seen as unsigned integers. `magnitude` masks the
// bits that make a value nonzero, `exponent` those that are all ones in infinities and NaN (0 for
// integers). Return the flat position of the first value that is not finite, or -1.
int64_t ScanPlane(TensorView weight, int64_t magnitude, int64_t exponent, TensorView bits,
                  TensorView row_count, TensorView row_pair, TensorView col_count,
                  TensorView col_pair) {
  if (weight.ndim() != 2) TVM_FFI_THROW(ValueError) << "weight: Expected a matrix.";
  const int64_t rows = weight.size(0), cols = weight.size(1);
  const Outputs out{Checked<uint64_t>(bits, "bits", {rows, Words(cols)}),
                    Checked<int64_t>(row_count, "row_count", {rows}),
                    Checked<int64_t>(row_pair, "row_pair", {rows}),
                    Checked<int64_t>(col_count, "col_count", {cols}),
                    Checked<int64_t>(col_pair, "col_pair", {cols})};
  std::fill_n(out.col_count, cols, 0);
  std::fill_n(out.col_pair, cols, 0);
  const auto m = static_cast<uint64_t>(magnitude), e = static_cast<uint64_t>(exponent);
  switch (weight.dtype().bits) {
    case 8: return Scan8(Checked<uint8_t>(weight, "weight", {rows, cols}), rows, cols, m, e, out);
    case 16:
      return Scan16(Checked<uint16_t>(weight, "weight", {rows, cols}), rows, cols, m, e, out);
    case 32:
      return Scan32(Checked<uint32_t>(weight, "weight", {rows, cols}), rows, cols, m, e, out);
    default:
      return Scan64(Checked<uint64_t>(weight, "weight", {rows, cols}), rows, cols, m, e, out);
  }
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scan_plane, ScanPlane);
}  // namespace tvm_sparse
