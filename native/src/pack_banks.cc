// Packer of the balanced format: equally many values a bank, indices in words, lanes of rows.
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

#include "tvm_sparse/bits.h"
#include "tvm_sparse/matrix.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

// Extents of the format; see BalancedFormat in Python, whose properties have the same names.
struct Layout {
  int64_t rows, cols, bank, keep, lanes, share, segments;
  int64_t segment_cols() const { return cols / segments; }
  int64_t segment_banks() const { return CeilDiv(segment_cols(), bank); }
  int64_t banks() const { return segments * segment_banks(); }
  int64_t groups() const { return CeilDiv(rows, lanes * share); }
};

// How in-bank indices fill words.
struct Words {
  int64_t bits, banks_per_word, words_per_bank, slots, words;

  TVM_SPARSE_INLINE void Set(int64_t bank, int64_t keep, int64_t k, int64_t index, int64_t lane,
                             int64_t lanes, uint32_t* group) const {
    const int64_t place = bank % banks_per_word * keep + k;
    const int64_t word = bank / banks_per_word * words_per_bank + place / slots;
    group[word * lanes + lane] |= static_cast<uint32_t>(index) << (place % slots * bits);
  }
};

// The window of a bank: it is moved left where it would pass the end of its segment, and its first
// `shared` columns are then those of its neighbour.
struct Window {
  int64_t start, shared;
};

TVM_SPARSE_INLINE Window WindowOf(const Layout& at, int64_t bank) {
  const int64_t segment = bank / at.segment_banks(), own = bank % at.segment_banks() * at.bank;
  const int64_t start = std::min(own, at.segment_cols() - at.bank);
  return {segment * at.segment_cols() + start, own - start};
}

// One lane of one group: the rows that share indices, nullptr past the last row.
template <typename T>
struct Lane {
  std::vector<const T*> rows;
  std::vector<uint8_t> used, filler;

  Lane(const Layout& at) : rows(at.share), used(at.bank), filler(at.bank) {}

  TVM_SPARSE_INLINE void Load(const Layout& at, const T* weight, int64_t group, int64_t lane) {
    for (int64_t s = 0; s < at.share; ++s) {
      const int64_t row = (group * at.share + s) * at.lanes + lane;
      rows[s] = row < at.rows ? weight + row * at.cols : nullptr;
    }
  }

  // Flag the columns of a window in which any row has a nonzero; return their number.
  TVM_SPARSE_INLINE int64_t Flag(const Layout& at, const Window& window, T magnitude) {
    std::fill(used.begin(), used.end(), 0);
    for (const T* row : rows) {
      if (row == nullptr) continue;
      for (int64_t c = window.shared; c < at.bank; ++c) {
        used[c] |= (row[window.start + c] & magnitude) != 0;
      }
    }
    int64_t count = 0;
    for (int64_t c = 0; c < at.bank; ++c) count += used[c];
    return count;
  }

  // Flag so many columns of a window in which all rows are zero, those that come first. A neighbour
  // may store a nonzero of the columns in common: times an infinity, a zero beside it makes NaN.
  // Return how many columns are missing.
  TVM_SPARSE_INLINE int64_t Fill(const Layout& at, const Window& window, T magnitude,
                                 int64_t count) {
    std::fill(filler.begin(), filler.end(), 0);
    for (int64_t c = 0; c < at.bank && count > 0; ++c) {
      bool zero = !used[c];
      for (const T* row : rows) {
        zero = zero && (row == nullptr || (row[window.start + c] & magnitude) == 0);
      }
      filler[c] = zero;
      count -= zero;
    }
    return count;
  }
};

template <typename T>
TVM_SPARSE_INLINE int64_t MostOf(const Layout& at, const T* weight, T magnitude) {
  Lane<T> lane(at);
  int64_t most = 0;
  for (int64_t g = 0; g < at.groups(); ++g) {
    for (int64_t l = 0; l < at.lanes; ++l) {
      lane.Load(at, weight, g, l);
      for (int64_t b = 0; b < at.banks(); ++b) {
        most = std::max(most, lane.Flag(at, WindowOf(at, b), magnitude));
      }
    }
  }
  return most;
}

// Fill the slots with the flagged columns and as many that are zero, in ascending order. Where too
// few are, the last column stands there again with zeros: see BalancedFormat.encode in Python.
template <typename T>
TVM_SPARSE_INLINE void FillBank(const Layout& at, const Words& words, const Lane<T>& lane,
                                const Window& window, int64_t missing, int64_t group, int64_t bank,
                                int64_t l, T* values, uint32_t* indices) {
  int64_t last = 0, k = 0;
  auto set = [&](int64_t c, bool zero) {
    for (int64_t s = 0; s < at.share; ++s) {
      const T* row = lane.rows[s];
      const int64_t block = group * at.share + s;
      values[((block * at.banks() + bank) * at.keep + k) * at.lanes + l] =
          row != nullptr && !zero ? row[window.start + c] : T{0};
    }
    words.Set(bank, at.keep, k++, c, l, at.lanes, indices + group * words.words * at.lanes);
  };
  for (int64_t c = 0; c < at.bank; ++c) {
    if (!lane.used[c] && !lane.filler[c]) continue;
    set(c, !lane.used[c]);
    last = c;
  }
  for (int64_t i = 0; i < missing; ++i) set(last, true);
}

template <typename T>
TVM_SPARSE_INLINE int64_t PackAll(const Layout& at, const Words& words, const T* weight,
                                  T magnitude, T* values, uint32_t* indices) {
  Lane<T> lane(at);
  for (int64_t g = 0; g < at.groups(); ++g) {
    for (int64_t l = 0; l < at.lanes; ++l) {
      lane.Load(at, weight, g, l);
      for (int64_t b = 0; b < at.banks(); ++b) {
        const Window window = WindowOf(at, b);
        const int64_t count = lane.Flag(at, window, magnitude);
        if (count > at.keep) return (g * at.share * at.lanes + l) * at.banks() + b;
        const int64_t missing = lane.Fill(at, window, magnitude, at.keep - count);
        FillBank(at, words, lane, window, missing, g, b, l, values, indices);
      }
    }
  }
  return -1;
}

Layout CheckedLayout(const TensorView& weight, int64_t bank, int64_t lanes, int64_t share,
                     int64_t segments) {
  const Extents size = MatrixExtents(weight);
  ExpectPositive(bank, "bank");
  ExpectPositive(lanes, "lanes");
  ExpectPositive(share, "share");
  ExpectPositive(segments, "segments");
  if (size.cols % segments != 0 || size.cols / segments < bank) {
    TVM_FFI_THROW(ValueError) << "segments: Expected runs of at least " << bank << " columns.";
  }
  return {size.rows, size.cols, bank, 0, lanes, share, segments};
}

// Largest number of columns of any bank in which one of the rows that share indices is nonzero.
int64_t MostInBank(TensorView weight, int64_t magnitude, int64_t bank, int64_t lanes, int64_t share,
                   int64_t segments) {
  const Layout at = CheckedLayout(weight, bank, lanes, share, segments);
  int64_t most = 0;
  DispatchWidth(weight, [&](auto zero) {
    using T = decltype(zero);
    const T* source = Checked<T>(weight, "weight", {at.rows, at.cols});
    most = MostOf(at, source, static_cast<T>(magnitude));
  });
  return most;
}

// Fill values (row_blocks, banks, keep, lanes) and indices (row_blocks / share, words, lanes).
// Return row * banks + bank of the first bank that holds more than `keep`, or -1.
int64_t PackBanks(TensorView weight, int64_t magnitude, int64_t bank, int64_t share,
                  int64_t segments, int64_t banks_per_word, TensorView values, TensorView indices) {
  if (values.ndim() != 4) TVM_FFI_THROW(ValueError) << "values: Expected 4 dimensions.";
  Layout at = CheckedLayout(weight, bank, values.size(3), share, segments);
  at.keep = values.size(2);
  ExpectPositive(at.keep, "keep");
  ExpectPositive(banks_per_word, "banks_per_word");
  if (at.keep > bank) TVM_FFI_THROW(ValueError) << "keep: Expected at most " << bank << ".";
  int64_t bits = 1;
  while ((int64_t{1} << bits) < bank) ++bits;
  const int64_t slots = std::min(banks_per_word * at.keep, 32 / bits);
  const int64_t per_bank = CeilDiv(at.keep, 32 / bits);
  if (at.banks() % banks_per_word != 0 ||
      (banks_per_word > 1 && banks_per_word * at.keep > slots)) {
    TVM_FFI_THROW(ValueError) << "banks_per_word: Expected a divisor of the banks that fits.";
  }
  const Words words{bits, banks_per_word, per_bank, slots, at.banks() / banks_per_word * per_bank};
  auto* packed = Checked<uint32_t>(indices, "indices", {at.groups(), words.words, at.lanes});
  std::fill_n(packed, indices.numel(), 0u);
  int64_t beyond = -1;
  DispatchWidth(weight, [&](auto zero) {
    using T = decltype(zero);
    const T* source = Checked<T>(weight, "weight", {at.rows, at.cols});
    T* out = Checked<T>(values, "values", {at.groups() * share, at.banks(), at.keep, at.lanes});
    beyond = PackAll(at, words, source, static_cast<T>(magnitude), out, packed);
  });
  return beyond;
}

}  // namespace
TVM_FFI_DLL_EXPORT_TYPED_FUNC(most_in_bank, MostInBank);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pack_banks, PackBanks);
}  // namespace tvm_sparse
