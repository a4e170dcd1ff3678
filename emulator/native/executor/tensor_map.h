// How copies read a tensor in boxes. A GPU's encoding is not public: this one is the executor's
// own.
#pragma once
#include <cstdint>

namespace ptx {

constexpr int kMostDimensions = 5;

struct TensorMap {
  uint64_t mark;  // says that this executor wrote it
  uint64_t base;
  uint64_t sizes[kMostDimensions];        // in elements, the innermost first
  uint64_t strides[kMostDimensions - 1];  // in bytes, of all but the innermost
  uint32_t box[kMostDimensions];          // in elements
  uint8_t rank, bytes, swizzle;           // bytes of an element; power of the swizzle
};

constexpr int kTensorMapBytes = 128;
constexpr uint64_t kTensorMapMark = 0x70616d2d726f736e;
static_assert(sizeof(TensorMap) <= kTensorMapBytes, "a map is a parameter of 128 bytes");

// Check and encode; throws std::runtime_error.
TensorMap Encoded(TensorMap map);

}  // namespace ptx
