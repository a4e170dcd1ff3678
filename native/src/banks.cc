// Counts of nonzeros in banks of consecutive columns of a bit plane.
#include <tvm/ffi/function.h>

#include <algorithm>

#include "tvm_sparse/bits.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

struct Plane {
  const uint64_t* bits;
  int64_t rows, words, cols, step;  // every step-th row is read
};

Plane CheckedPlane(const TensorView& bits, int64_t cols, int64_t step) {
  ExpectPositive(cols, "cols");
  ExpectPositive(step, "step");
  const uint64_t* data = Checked<uint64_t>(bits, "bits", {-1, Words(cols)});
  return {data, bits.size(0), Words(cols), cols, step};
}

// Add the counts of one row's whole banks to `hist` (bank + 1) and of its short last one to `tail`.
TVM_SPARSE_INLINE void CountRow(const RankedRow& row, int64_t cols, int64_t bank, int64_t* hist,
                                int64_t* tail) {
  const int64_t whole = cols / bank * bank;
  int32_t start = 0;
  for (int64_t end = bank; end <= whole; end += bank) {
    const int32_t stop = row.Before(end);
    ++hist[stop - start];
    start = stop;
  }
  if (whole < cols) ++tail[row.Before(cols) - start];
}

TVM_SPARSE_MULTIVERSION void Histogram(const Plane& plane, int64_t bank, int64_t* hist,
                                       int64_t* tail) {
  RankedRow row(plane.cols);
  for (int64_t r = 0; r < plane.rows; r += plane.step) {
    row.Load(plane.bits + r * plane.words);
    CountRow(row, plane.cols, bank, hist, tail);
  }
}

// Number of banks of `bank` columns with each count of nonzeros; the short last bank of a row,
// where there is one, is counted in `tail`.
void BankHistogram(TensorView bits, int64_t cols, int64_t bank, int64_t step, TensorView hist,
                   TensorView tail) {
  ExpectPositive(bank, "bank");
  int64_t* whole = Checked<int64_t>(hist, "hist", {bank + 1});
  int64_t* last = Checked<int64_t>(tail, "tail", {bank + 1});
  std::fill_n(whole, bank + 1, 0);
  std::fill_n(last, bank + 1, 0);
  Histogram(CheckedPlane(bits, cols, step), bank, whole, last);
}

// What one histogram of whole banks says: see BankSweep.
TVM_SPARSE_INLINE void Summarise(const int64_t* hist, int64_t bank, int64_t banks, int64_t* out) {
  int64_t least = 0, most = bank, beyond = 0;
  while (least < bank && hist[least] == 0) ++least;
  while (most > 0 && hist[most] == 0) --most;
  const int64_t tolerated = std::max(banks / 100, std::min<int64_t>(3, banks / 16));
  int64_t keep = most;
  while (keep > 0 && beyond + hist[keep] <= tolerated) beyond += hist[keep--];
  const int64_t summary[] = {banks, least, most, keep, beyond};
  std::copy(std::begin(summary), std::end(summary), out);
}

TVM_SPARSE_MULTIVERSION void Sweep(const Plane& plane, int64_t largest, int64_t* summary) {
  std::vector<int64_t> hist(largest + 1), tail(largest + 1);
  std::vector<RankedRow> rows(CeilDiv(plane.rows, plane.step), RankedRow(plane.cols));
  for (size_t i = 0; i < rows.size(); ++i) rows[i].Load(plane.bits + i * plane.step * plane.words);
  for (int64_t bank = 1; bank <= largest; ++bank) {
    std::fill_n(hist.begin(), bank + 1, 0);
    for (const RankedRow& row : rows) CountRow(row, plane.cols, bank, hist.data(), tail.data());
    Summarise(hist.data(), bank, rows.size() * (plane.cols / bank), summary + 5 * bank);
  }
}

// For every bank size up to the extent of `summary` (largest + 1, 5): number of whole banks in the
// rows read, smallest and largest count, smallest `keep` that few banks exceed (1 %, and
// up to three of a few banks), and how many exceed it. Row 0 is not written.
void BankSweep(TensorView bits, int64_t cols, int64_t step, TensorView summary) {
  int64_t* out = Checked<int64_t>(summary, "summary", {-1, 5});
  const int64_t largest = summary.size(0) - 1;
  if (largest > cols)
    TVM_FFI_THROW(ValueError) << "summary: Expected at most " << cols << " banks.";
  Sweep(CheckedPlane(bits, cols, step), largest, out);
}

// Return the first bank of `row` with more than `keep` nonzeros, or -1.
TVM_SPARSE_INLINE int64_t FirstBeyond(const RankedRow& row, int64_t cols, int64_t bank,
                                      int64_t keep) {
  int32_t before = 0;
  for (int64_t b = 0; b * bank < cols; ++b) {
    const int32_t after = row.Before(std::min((b + 1) * bank, cols));
    if (after - before > keep) return b;
    before = after;
  }
  return -1;
}

TVM_SPARSE_MULTIVERSION void Beyond(const Plane& plane, int64_t bank, int64_t keep, int64_t lanes,
                                    int64_t* out) {
  RankedRow row(plane.cols);
  const int64_t banks = CeilDiv(plane.cols, bank);
  out[0] = -1, out[1] = 0;
  for (int64_t r = 0; r < plane.rows; ++r) {
    row.Load(plane.bits + r * plane.words);
    const int64_t first = FirstBeyond(row, plane.cols, bank, keep);
    if (first < 0) continue;
    if (out[0] < 0) out[0] = r * banks + first;
    ++out[1];
    r = (r / lanes + 1) * lanes - 1;  // the rest of this group tells nothing new
  }
}

// Write to `out` (2): the flat position (row * banks + bank) of the first bank with more than
// `keep` nonzeros, or -1, and how many groups of `lanes` rows have such a bank.
void BanksBeyond(TensorView bits, int64_t cols, int64_t bank, int64_t keep, int64_t lanes,
                 TensorView out) {
  ExpectPositive(bank, "bank");
  ExpectPositive(lanes, "lanes");
  Beyond(CheckedPlane(bits, cols, 1), bank, keep, lanes, Checked<int64_t>(out, "out", {2}));
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(bank_histogram, BankHistogram);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(bank_sweep, BankSweep);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(banks_beyond, BanksBeyond);
}  // namespace tvm_sparse
