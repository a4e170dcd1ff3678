// Elements of tensors at given addresses, to see at each call whether somebody has written them.
#include <tvm/ffi/function.h>

#include <cstring>

#include "tvm_sparse/check.h"

namespace tvm_sparse {
namespace {

using tvm::ffi::TensorView;

// Copy `widths[i]` bytes, at most eight, from `places[i]` to `found[i]` if `keep`; return whether
// any of these differs from what `found[i]` held.
bool ReadSamples(TensorView places, TensorView widths, TensorView found, bool keep) {
  const int64_t count = places.size(0);
  const int64_t* from = Checked<int64_t>(places, "places", {count});
  const int64_t* width = Checked<int64_t>(widths, "widths", {count});
  uint64_t* to = Checked<uint64_t>(found, "found", {count});
  bool changed = false;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const void*>(from[i]), width[i] < 8 ? width[i] : 8);
    changed |= bits != to[i];
    if (keep) to[i] = bits;
  }
  return changed;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(read_samples, ReadSamples);

}  // namespace tvm_sparse
