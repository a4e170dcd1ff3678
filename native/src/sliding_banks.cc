// Banks of columns that begin where a block of rows has a nonzero left; see SlidingBanks in Python.
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

#include "tvm_sparse/bits.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

constexpr int64_t kStep = 16;  // columns: vectors that begin at multiples of it cross no cache line

struct Shape {
  const uint64_t* bits;
  int64_t rows, cols, keep, bank, span, lanes;
  int64_t blocks() const { return CeilDiv(rows, lanes); }
};

Shape CheckedShape(const TensorView& bits, int64_t cols, int64_t keep, int64_t bank, int64_t span,
                   int64_t lanes) {
  ExpectPositive(cols, "cols");
  ExpectPositive(keep, "keep");
  ExpectPositive(lanes, "lanes");
  if (bank < kStep || bank > 256) {
    TVM_FFI_THROW(ValueError) << "bank: Expected " << kStep << " to 256. Got " << bank << ".";
  }
  ExpectPositive(span / bank, "span / bank");
  const uint64_t* data = Checked<uint64_t>(bits, "bits", {-1, Words(cols)});
  return {data, bits.size(0), cols, keep, bank, span, lanes};
}

// Return the first column from `col` on whose bit is set, or `cols`.
TVM_SPARSE_INLINE int64_t NextSet(const uint64_t* row, int64_t col, int64_t cols) {
  const int64_t words = Words(cols);
  int64_t word = col >> 6;
  if (word >= words) return cols;
  uint64_t left = row[word] >> (col & 63);
  if (left != 0) return std::min(col + __builtin_ctzll(left), cols);
  while (++word < words) {
    if (row[word] != 0) return std::min(word * 64 + __builtin_ctzll(row[word]), cols);
  }
  return cols;
}

TVM_SPARSE_INLINE int64_t Start(const Shape& at, int64_t column) {
  const int64_t first = column / at.span * at.span, inner = (column - first) / kStep * kStep;
  return first + std::min(inner, at.span - at.bank);
}

// Return the first column from `col` to `end` whose bit is not set, or `end`.
TVM_SPARSE_INLINE int64_t NextClear(const uint64_t* row, int64_t col, int64_t end) {
  while (col < end && (row[col >> 6] >> (col & 63) & 1) != 0) ++col;
  return col;
}

// Call bank(start) for each bank of block `block`, and then value(start, k, lane, column) for each
// value that it takes, in the order of lanes, and rest(start, k, lane, row) if these are only `k`;
// return the number of banks.
template <typename Bank, typename Value, typename Rest>
TVM_SPARSE_INLINE int64_t Walk(const Shape& at, int64_t block, int64_t* next, Bank bank,
                               Value value, Rest rest) {
  const int64_t first = block * at.lanes, lanes = std::min(at.lanes, at.rows - first);
  const int64_t words = Words(at.cols);
  const uint64_t* rows = at.bits + first * words;
  for (int64_t i = 0; i < lanes; ++i) next[i] = NextSet(rows + i * words, 0, at.cols);
  for (int64_t count = 0;; ++count) {
    const int64_t column = *std::min_element(next, next + lanes);
    if (column >= at.cols) return count;
    const int64_t start = Start(at, column), end = start + at.bank;
    bank(start);
    for (int64_t i = 0; i < lanes; ++i) {
      int64_t k = 0;
      for (; k < at.keep && next[i] < end; ++k) {
        value(start, k, i, next[i]);
        next[i] = NextSet(rows + i * words, next[i] + 1, at.cols);
      }
      if (k < at.keep) rest(start, k, i, rows + i * words);
    }
  }
}

// Write the number of banks of each block to `counts` (blocks,).
void SlidingCounts(TensorView bits, int64_t cols, int64_t keep, int64_t bank, int64_t span,
                   int64_t lanes, TensorView counts) {
  const Shape at = CheckedShape(bits, cols, keep, bank, span, lanes);
  int64_t* out = Checked<int64_t>(counts, "counts", {at.blocks()});
  std::vector<int64_t> next(lanes);
  for (int64_t block = 0; block < at.blocks(); ++block) {
    out[block] = Walk(
        at, block, next.data(), [](int64_t) {}, [](int64_t, int64_t, int64_t, int64_t) {},
        [](int64_t, int64_t, int64_t, const uint64_t*) {});
  }
}

// Write the first column of each bank to `columns` (banks,), how many values each lane takes to
// `taken` (banks, lanes), and their columns in the bank to `indices` (banks, keep, lanes). Where
// nothing is taken that is a column of zeros, or if there is none, the last one that is taken.
void SlidingBanks(TensorView bits, int64_t cols, int64_t keep, int64_t bank, int64_t span,
                  int64_t lanes, TensorView columns, TensorView taken, TensorView indices) {
  const Shape at = CheckedShape(bits, cols, keep, bank, span, lanes);
  int64_t* starts = Checked<int64_t>(columns, "columns", {-1});
  const int64_t banks = columns.size(0);
  uint8_t* used = Checked<uint8_t>(taken, "taken", {banks, lanes});
  uint8_t* index = Checked<uint8_t>(indices, "indices", {banks, keep, lanes});
  std::fill_n(used, banks * lanes, 0);
  std::vector<int64_t> next(lanes);
  int64_t found = 0;
  for (int64_t block = 0; block < at.blocks(); ++block) {
    Walk(
        at, block, next.data(),
        [&](int64_t start) {
          if (found >= banks) TVM_FFI_THROW(ValueError) << "columns: Expected more banks.";
          starts[found++] = start;
        },
        [&](int64_t start, int64_t k, int64_t lane, int64_t column) {
          used[(found - 1) * lanes + lane] = static_cast<uint8_t>(k + 1);
          index[((found - 1) * keep + k) * lanes + lane] = static_cast<uint8_t>(column - start);
        },
        [&](int64_t start, int64_t k, int64_t lane, const uint64_t* row) {
          uint8_t* at_lane = index + (found - 1) * keep * lanes + lane;
          const int64_t clear = NextClear(row, start, start + at.bank) - start;
          const int64_t filler = clear < at.bank ? clear : k > 0 ? at_lane[(k - 1) * lanes] : 0;
          for (; k < keep; ++k) at_lane[k * lanes] = static_cast<uint8_t>(filler);
        });
  }
  if (found != banks) TVM_FFI_THROW(ValueError) << "columns: Expected " << found << " banks.";
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sliding_counts, SlidingCounts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sliding_banks, SlidingBanks);
}  // namespace tvm_sparse
