// Rows of bits, column c in bit c % 64 of word c / 64, and how many are set in a window of columns.
#pragma once
#include <cstdint>
#include <vector>

#include "check.h"

namespace tvm_sparse {

inline int64_t Words(int64_t cols) { return (cols + 63) / 64; }

TVM_SPARSE_INLINE int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// Set bits of one row before any column: one running count a word and one popcount a query.
class RankedRow {
 public:
  explicit RankedRow(int64_t cols) : words_(Words(cols)), before_(words_ + 1) {}

  TVM_SPARSE_INLINE void Load(const uint64_t* row) {
    row_ = row;
    int32_t total = 0;
    for (int64_t w = 0; w < words_; ++w) {
      before_[w] = total;
      total += __builtin_popcountll(row[w]);
    }
    before_[words_] = total;
  }

  TVM_SPARSE_INLINE int32_t Before(int64_t col) const {
    const int64_t word = col >> 6, bit = col & 63;
    if (bit == 0) return before_[word];
    return before_[word] + __builtin_popcountll(row_[word] & ((uint64_t{1} << bit) - 1));
  }

 private:
  int64_t words_;
  const uint64_t* row_ = nullptr;
  std::vector<int32_t> before_;
};

}  // namespace tvm_sparse
