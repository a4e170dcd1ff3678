// Blocks of a bit plane: which hold a nonzero, how many nonzeros they hold.
#include <tvm/ffi/function.h>

#include <algorithm>

#include "tvm_sparse/bits.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

struct Grid {
  const uint64_t* bits;
  int64_t rows, words, cols, block_rows, block_cols;
  int64_t down() const { return CeilDiv(rows, block_rows); }
  int64_t across() const { return CeilDiv(cols, block_cols); }
};

Grid CheckedGrid(const TensorView& bits, int64_t cols, int64_t block_rows, int64_t block_cols) {
  ExpectPositive(cols, "cols");
  ExpectPositive(block_rows, "block_rows");
  ExpectPositive(block_cols, "block_cols");
  const uint64_t* data = Checked<uint64_t>(bits, "bits", {-1, Words(cols)});
  return {data, bits.size(0), Words(cols), cols, block_rows, block_cols};
}

// OR the rows of block row `i` into `merged`; return how many rows it has.
TVM_SPARSE_INLINE int64_t MergeRows(const Grid& grid, int64_t i, uint64_t* merged) {
  const int64_t first = i * grid.block_rows, last = std::min(first + grid.block_rows, grid.rows);
  std::copy_n(grid.bits + first * grid.words, grid.words, merged);
  for (int64_t r = first + 1; r < last; ++r) {
    const uint64_t* row = grid.bits + r * grid.words;
    for (int64_t w = 0; w < grid.words; ++w) merged[w] |= row[w];
  }
  return last - first;
}

// Whether the bits of columns [start, end) of a row hold a one; at most 64 columns.
TVM_SPARSE_INLINE bool AnyOf(const uint64_t* row, int64_t start, int64_t end) {
  const int64_t word = start >> 6, shift = start & 63, width = end - start;
  uint64_t window = row[word] >> shift;
  if (shift + width > 64) window |= row[word + 1] << (64 - shift);
  return width == 64 ? window != 0 : (window & ((uint64_t{1} << width) - 1)) != 0;
}

// Call visit(j, start, end, any) for each block j of a merged row.
template <typename Visit>
TVM_SPARSE_INLINE void VisitBlocks(const Grid& grid, const uint64_t* merged, RankedRow* ranked,
                                   Visit visit) {
  const int64_t across = grid.across();
  const bool narrow = grid.block_cols <= 64;
  if (!narrow) ranked->Load(merged);
  for (int64_t j = 0; j < across; ++j) {
    const int64_t start = j * grid.block_cols, end = std::min(start + grid.block_cols, grid.cols);
    const bool any =
        narrow ? AnyOf(merged, start, end) : ranked->Before(end) != ranked->Before(start);
    visit(j, start, end, any);
  }
}

// One popcount where blocks are a column wide and never cross a word.
TVM_SPARSE_INLINE int64_t CountSingles(const Grid& grid, const uint64_t* merged) {
  int64_t count = 0;
  for (int64_t w = 0; w < grid.words; ++w) count += __builtin_popcountll(merged[w]);
  return count;
}

TVM_SPARSE_MULTIVERSION void Occupied(const Grid& grid, int64_t* blocks, int64_t* cells) {
  std::vector<uint64_t> merged(grid.words);
  RankedRow ranked(grid.cols);
  *blocks = *cells = 0;
  for (int64_t i = 0; i < grid.down(); ++i) {
    const int64_t height = MergeRows(grid, i, merged.data());
    int64_t count = 0, width = 0;
    if (grid.block_cols == 1) {
      count = width = CountSingles(grid, merged.data());
    } else {
      VisitBlocks(grid, merged.data(), &ranked, [&](int64_t, int64_t start, int64_t end, bool any) {
        count += any;
        width += any ? end - start : 0;
      });
    }
    *blocks += count;
    *cells += height * width;
  }
}

// Write to `out` (2): how many blocks hold a nonzero, and how many weights those blocks have.
void BlockTotals(TensorView bits, int64_t cols, int64_t block_rows, int64_t block_cols,
                 TensorView out) {
  int64_t* totals = Checked<int64_t>(out, "out", {2});
  Occupied(CheckedGrid(bits, cols, block_rows, block_cols), totals, totals + 1);
}

TVM_SPARSE_MULTIVERSION void Count(const Grid& grid, int32_t* counts) {
  RankedRow row(grid.cols);
  const int64_t across = grid.across();
  std::fill_n(counts, grid.down() * across, 0);
  for (int64_t r = 0; r < grid.rows; ++r) {
    row.Load(grid.bits + r * grid.words);
    int32_t* out = counts + r / grid.block_rows * across;
    int32_t before = 0;
    for (int64_t j = 0; j < across; ++j) {
      const int32_t after = row.Before(std::min((j + 1) * grid.block_cols, grid.cols));
      out[j] += after - before;
      before = after;
    }
  }
}

// Nonzeros of each block: `counts` (ceil(rows / block_rows), ceil(cols / block_cols)).
void BlockCounts(TensorView bits, int64_t cols, int64_t block_rows, int64_t block_cols,
                 TensorView counts) {
  const Grid grid = CheckedGrid(bits, cols, block_rows, block_cols);
  Count(grid, Checked<int32_t>(counts, "counts", {grid.down(), grid.across()}));
}

struct Visible {
  double banks, cells, nonzeros, ratio;
};

// Add what a bank with `v` weights in kept blocks, `c` of them nonzero, tells about its count.
TVM_SPARSE_INLINE void Add(Visible* sum, double v, double c) {
  if (v == 0) return;
  sum->banks += 1;
  sum->cells += v;
  sum->nonzeros += c;
  sum->ratio += c * c / v;
}

// Set the bits of columns [start, end).
TVM_SPARSE_INLINE void SetBits(uint64_t* row, int64_t start, int64_t end) {
  for (int64_t c = start; c < end;) {
    const int64_t shift = c & 63, width = std::min<int64_t>(64 - shift, end - c);
    const uint64_t ones = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    row[c >> 6] |= ones << shift;
    c += width;
  }
}

TVM_SPARSE_MULTIVERSION void Moments(const Grid& grid, int64_t step, const int64_t* banks,
                                     int64_t count, Visible* out) {
  std::vector<uint64_t> merged(grid.words), kept(grid.words);
  RankedRow row(grid.cols), shown(grid.cols), ranked(grid.cols);
  int64_t block_row = -1;
  for (int64_t r = 0; r < grid.rows; r += step) {
    if (r / grid.block_rows != block_row) {
      block_row = r / grid.block_rows;
      MergeRows(grid, block_row, merged.data());
      std::fill(kept.begin(), kept.end(), 0);
      VisitBlocks(grid, merged.data(), &ranked, [&](int64_t, int64_t start, int64_t end, bool any) {
        if (any) SetBits(kept.data(), start, end);
      });
      shown.Load(kept.data());
    }
    row.Load(grid.bits + r * grid.words);
    for (int64_t i = 0; i < count; ++i) {
      int32_t nonzeros = 0, cells = 0;
      for (int64_t end = banks[i]; end <= grid.cols; end += banks[i]) {
        const int32_t c = row.Before(end), v = shown.Before(end);
        Add(out + i, v - cells, c - nonzeros);
        nonzeros = c, cells = v;
      }
    }
  }
}

// For each bank size in `banks`, sums over the whole banks of every step-th row that have weights
// in blocks holding a nonzero; with v such weights, c of them nonzero, in a bank: number of banks,
// sum v, sum c, sum c*c/v.
void VisibleMoments(TensorView bits, int64_t cols, int64_t block_rows, int64_t block_cols,
                    int64_t step, TensorView banks, TensorView out) {
  ExpectPositive(step, "step");
  const Grid grid = CheckedGrid(bits, cols, block_rows, block_cols);
  const int64_t* sizes = Checked<int64_t>(banks, "banks", {-1});
  const int64_t count = banks.size(0);
  for (int64_t i = 0; i < count; ++i) ExpectPositive(sizes[i], "banks");
  double* sums = Checked<double>(out, "out", {count, 4});
  std::fill_n(sums, 4 * count, 0.0);
  static_assert(sizeof(Visible) == 4 * sizeof(double));
  Moments(grid, step, sizes, count, reinterpret_cast<Visible*>(sums));
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(block_totals, BlockTotals);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(block_counts, BlockCounts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(visible_moments, VisibleMoments);
}  // namespace tvm_sparse
