// Sizes of tensors whose extents come from a file or a caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tvm_sparse {

// No tensor has more elements: whatever a program multiplies them with still fits 64 bits.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

// The elements of a tensor; none if an extent is negative or they are too many. An empty axis
// counts as one in that limit: results may have the other axes without it.
inline std::optional<uint64_t> elements_of(const int64_t* shape, size_t axes) {
  uint64_t counted = 1;
  bool empty = false;
  for (size_t axis = 0; axis < axes; ++axis) {
    if (shape[axis] < 0) return std::nullopt;
    auto extent = static_cast<uint64_t>(shape[axis]);
    empty = empty || extent == 0;
    if (extent > kMostElements / counted) return std::nullopt;
    if (extent) counted *= extent;
  }
  return empty ? 0 : counted;
}

}  // namespace tvm_sparse
