// What tensors look like, and their sizes.
#include <map>

#include "manifest.h"

namespace tvm_sparse {

size_t item_bytes(const std::string& dtype) {
  static const std::map<std::string, size_t> bytes{
      {"bool", 1},    {"int8", 1},     {"uint8", 1},  {"int16", 2},  {"uint16", 2},
      {"float16", 2}, {"bfloat16", 2}, {"int32", 4},  {"uint32", 4}, {"float32", 4},
      {"int64", 8},   {"uint64", 8},   {"float64", 8}};
  auto found = bytes.find(dtype);
  return found == bytes.end() ? 0 : found->second;
}

std::string TensorSpec::text() const {
  std::string result = name + ": " + dtype + "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) result += ", ";
    result += shape[i].symbol.empty() ? std::to_string(shape[i].length) : shape[i].symbol;
  }
  return result + "]";
}

uint64_t Weight::nbytes() const {
  uint64_t result = item_bytes(dtype);
  for (int64_t extent : shape) result *= static_cast<uint64_t>(extent);
  return result;
}

}  // namespace tvm_sparse
